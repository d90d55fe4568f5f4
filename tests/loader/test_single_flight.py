"""Turns: one at a time where there are locks, never a hindrance where there are none."""

from __future__ import annotations

import errno
import fcntl
import logging
import threading
from pathlib import Path

import pytest

from kernelforge.loader.single_flight import fetch_turn
from tests.loader.conftest import Release


def test_a_free_turn_is_taken_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    with fetch_turn(tmp_path / "lock", wait_s=0) as turn:
        assert (turn.waited, turn.is_unlocked) == (False, False)
        assert (tmp_path / "lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_turns_follow_each_other(tmp_path: Path) -> None:
    """Also when a holder has removed the file that the next one has opened already."""
    inside, overlaps, waited = [], [], []

    def take(_: int) -> None:
        with fetch_turn(tmp_path / "lock", wait_s=30) as turn:
            inside.append(1)
            overlaps.append(len(inside))
            waited.append(turn.waited)
            inside.pop()

    threads = [threading.Thread(target=take, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == [1] * 16
    assert list(tmp_path.iterdir()) == []


def test_the_wait_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kernelforge")
    with fetch_turn(tmp_path / "lock", wait_s=0), fetch_turn(tmp_path / "lock", wait_s=0.05) as turn:
        assert (turn.waited, turn.is_unlocked) == (True, False)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert "waiting for it up to" in caplog.text


def test_an_error_in_the_turn_ends_it(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), fetch_turn(tmp_path / "lock", wait_s=0):
        raise ZeroDivisionError
    with fetch_turn(tmp_path / "lock", wait_s=0) as turn:
        assert not turn.waited


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_costs_one_warning(
    release: Release, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """D4; flock fails like this on NFS and GPFS, which cannot be had here."""

    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(code, "no locks here")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    kernels = release.load()
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    assert "fetching without a lock" in caplog.text
    assert kernels.stats().counters["without_lock"] == 1
    assert release.cached.read_bytes() == release.library


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with fetch_turn(tmp_path / "lock", wait_s=0) as turn:
        assert turn.is_unlocked
    assert not (tmp_path / "elsewhere").exists()
