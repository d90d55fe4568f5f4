"""A machine remembers how far a channel was, where it has a folder for that."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelforge.errors import UnsafeCache
from kernelforge.loader.cache import PackCache
from kernelforge.loader.serials import SerialMemory


@pytest.fixture(autouse=True)
def _warnings_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SerialMemory, "_has_warned", False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def memory(folder: Path) -> SerialMemory:
    """As another process would make it."""
    return SerialMemory(PackCache(folder))


def test_the_highest_serial_of_each_channel_is_remembered(folder: Path) -> None:
    assert memory(folder).highest("qwen", "prod") == 0
    for serial in (9, 10, 3):
        memory(folder).keep("qwen", "prod", serial)
    memory(folder).keep("qwen", "canary", 2)
    assert memory(folder).highest("qwen", "prod") == 10
    assert memory(folder).highest("qwen", "canary") == 2
    assert memory(folder).highest("llama", "prod") == 0


def test_ranks_that_come_at_once_do_not_lower_it(folder: Path) -> None:
    serials = list(range(1, 41)) * 2
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda serial: memory(folder).keep("qwen", "prod", serial), serials))
    assert memory(folder).highest("qwen", "prod") == 40


def test_the_folder_stays_small_and_closed(folder: Path) -> None:
    for serial in range(1, 30):
        memory(folder).keep("qwen", "prod", serial)
    kept = folder / "serials" / "qwen" / "prod"
    assert [(file.name, file.stat().st_mode & 0o777) for file in kept.iterdir()] == [("29", 0o600)]
    assert {path.stat().st_mode & 0o777 for path in (kept, kept.parent, kept.parent.parent)} == {0o700}


def test_names_that_are_no_serials_do_not_count(folder: Path) -> None:
    memory(folder).keep("qwen", "prod", 4)
    for name in ("9.tmp", "-12", "\N{SUPERSCRIPT TWO}", "x"):
        (folder / "serials" / "qwen" / "prod" / name).write_bytes(b"")
    assert memory(folder).highest("qwen", "prod") == 4


def test_a_folder_of_others_is_not_believed(folder: Path) -> None:
    """Whoever can write there can lower it."""
    memory(folder).keep("qwen", "prod", 4)
    folder.chmod(0o777)
    with pytest.raises(UnsafeCache):
        memory(folder).highest("qwen", "prod")
    with pytest.raises(UnsafeCache):
        memory(folder).keep("qwen", "prod", 5)


@pytest.mark.parametrize("place", ["file", "read-only", "none"])
def test_where_nothing_can_be_kept_that_is_said_once(
    tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    folders = {"file": tmp_path / "file" / "cache", "read-only": Path("/proc/kernelforge"), "none": None}
    folder = folders[place]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            made = SerialMemory(None if folder is None else PackCache(folder))
            assert made.highest("qwen", "prod") == 0
            made.keep("qwen", "prod", 4)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "serials of channels are not remembered, so only minimum_serial holds off an old ref"
    ]


def test_who_only_looks_keeps_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    looking = SerialMemory(PackCache(folder), is_read_only=True)
    looking.keep("qwen", "prod", 4)
    assert not folder.exists()
    memory(folder).keep("qwen", "prod", 5)
    assert looking.highest("qwen", "prod") == 5
    assert not caplog.records
