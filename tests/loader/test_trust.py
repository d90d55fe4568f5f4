"""A lockfile is believed for the reason that the caller gave, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import InputError, LockfileError, UntrustedLockfile
from kernelforge.loader import source as source_module
from kernelforge.loader.trust import LocalFile, PinnedDigest, read_trusted

DATA = b"a lockfile"


def test_a_pin_may_be_text_or_a_digest() -> None:
    assert PinnedDigest(str(Digest.of(DATA))) == PinnedDigest(Digest.of(DATA))


@pytest.mark.parametrize("text", ["", "latest", Digest.of(DATA).hex, str(Digest.of(DATA)).upper()])
def test_a_pin_that_is_no_full_digest_is_refused_where_it_is_written(text: str) -> None:
    """A short or re-cased digest must not turn into a pin that matches nothing, or everything."""
    with pytest.raises(InputError, match="is not a digest"):
        PinnedDigest(text)


def test_pinned_bytes_and_pinned_files_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(DATA)
    pin = PinnedDigest(Digest.of(DATA))
    assert read_trusted(DATA, pin).digest == read_trusted(tmp_path / "lock", pin).digest == pin.digest
    assert read_trusted(str(tmp_path / "lock"), pin).data == DATA


def test_another_file_than_the_pinned_one_is_refused_with_both_digests(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(DATA + b"\n")
    with pytest.raises(UntrustedLockfile, match=str(Digest.of(DATA))) as refusal:
        read_trusted(tmp_path / "lock", PinnedDigest(Digest.of(DATA)))
    assert str(Digest.of(DATA + b"\n")) in str(refusal.value)
    assert str(tmp_path / "lock") in str(refusal.value)


def test_bytes_are_no_local_file() -> None:
    """The caller of LocalFile vouches for a place; bytes come from anywhere."""
    with pytest.raises(UntrustedLockfile, match="PinnedDigest"):
        read_trusted(DATA, LocalFile())


def test_a_missing_lockfile_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(LockfileError, match="No such file") as error:
        read_trusted(tmp_path / "absent", LocalFile())
    assert error.value.where == str(tmp_path / "absent")
    with pytest.raises(LockfileError, match="Is a directory"):
        read_trusted(tmp_path, LocalFile())


def test_an_endless_file_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "SIZE_LIMIT_BYTES", 1000)
    assert len(read_trusted("/dev/zero", LocalFile()).data) == 1001
