"""A pack is mapped only where nobody else can change it after its sha256 was checked."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from kernelforge.loader.file_access import read_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pack.so"
    path.write_bytes(b"content")
    return path


def test_our_own_file_is_mapped(file: Path) -> None:
    data = read_file(str(file), limit_bytes=8)
    assert isinstance(data, mmap.mmap)
    assert data[:] == b"content"


def test_a_file_that_others_may_write_to_is_copied(file: Path) -> None:
    """Bytes that were checked in a mapping are not the bytes that are opened, once somebody has written to the file."""
    file.chmod(0o666)
    data = read_file(str(file), limit_bytes=8)
    assert isinstance(data, bytes)
    file.write_bytes(b"changed")
    assert data == b"content"


@pytest.mark.parametrize("limit_bytes", [3, 7])
def test_no_more_is_read_than_can_be_right(file: Path, limit_bytes: int) -> None:
    assert read_file(str(file), limit_bytes=limit_bytes) == b"content"[:limit_bytes]


def test_an_empty_file_has_no_bytes(file: Path) -> None:
    file.write_bytes(b"")
    assert read_file(str(file), limit_bytes=8) == b""
