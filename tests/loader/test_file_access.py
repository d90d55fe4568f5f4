"""Which files the dynamic linker may open by their path: those that nobody can exchange after they were checked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelforge.loader.file_access import read_file, why_from_memory


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "reason"),
    [
        (0o644, 0o755, ""),
        (0o664, 0o755, "pack.so has mode 664"),
        (0o644, 0o775, "folder has mode 775"),
        (0o644, 0o777, "folder has mode 777"),
        (0o644, 0o1777, ""),
        (0o646, 0o1777, "pack.so has mode 646"),
    ],
)
def test_files_that_others_may_exchange_are_not_opened_by_path(
    tmp_path: Path, file_mode: int, folder_mode: int, reason: str
) -> None:
    file = tmp_path / "folder" / "pack.so"
    file.parent.mkdir()
    file.touch()
    file.chmod(file_mode)
    file.parent.chmod(folder_mode)
    why = why_from_memory(os.path.realpath(file))
    assert (reason in why) if reason else why == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_files_of_other_users_are_not_opened_by_path(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "pack.so"
    file.parent.mkdir()
    file.touch()
    os.chown(file.parent, 12345, -1)
    assert "user 12345" in why_from_memory(os.path.realpath(file))


@pytest.mark.parametrize("folder_mode", [0o755, 0o777], ids=["mapped", "copied"])
@pytest.mark.parametrize("size_bytes", [0, 1, 9, 10, 11])
def test_no_more_than_the_limit_is_read(tmp_path: Path, folder_mode: int, size_bytes: int) -> None:
    (tmp_path / "pack.so").write_bytes(bytes(range(size_bytes)))
    tmp_path.chmod(folder_mode)
    assert read_file(str(tmp_path / "pack.so"), limit_bytes=10)[:] == bytes(range(min(size_bytes, 10)))
