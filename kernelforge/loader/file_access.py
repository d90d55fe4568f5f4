"""Reading a pack's file, and whether the dynamic linker may be given its path afterwards.

The linker opens the file a second time, after its sha256 was checked. That is the file that was checked only where
nobody else can put another one under the path meanwhile; elsewhere the checked bytes are opened from memory. Knows no
place by name.
"""

from __future__ import annotations

import mmap
import os
import stat

from kernelforge.errors import PackCorrupt

# What a file holds: its bytes, or the mapped file.
FileBytes = bytes | mmap.mmap

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def read_file(path: str, *, limit_bytes: int) -> FileBytes:
    """Up to ``limit_bytes`` of a regular file, never waiting for it; ``PackCorrupt`` for anything else, ``OSError``.

    A file that only this user and root can write to is mapped, as the linker will do: that takes 0.1 ms for 14 MB, a
    copy 8 ms in a fresh process. Whoever can write to a file can change what is mapped after it was checked.
    """
    with open(path, "rb", opener=_open_regular) as file:
        status = os.fstat(file.fileno())
        is_ours = status.st_uid in (os.geteuid(), 0) and not status.st_mode & WRITABLE_BY_OTHERS
        if is_ours and 0 < status.st_size < limit_bytes:
            flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE
            return mmap.mmap(file.fileno(), status.st_size, flags=flags, prot=mmap.PROT_READ)
        return file.read(limit_bytes)


def why_from_memory(path: str) -> str:
    """Why the file must not be opened by this path, which has no symbolic links; empty where it may be.

    A read-only file system counts as closed: who may fill it is for whoever mounted it to say. Elsewhere the file and
    every folder above it have to belong to this user or root and be writable by nobody else, but for folders with the
    sticky bit (``/tmp``), where others cannot rename what is ours.
    """
    flags = os.statvfs(path).f_flag
    if flags & os.ST_NOEXEC:
        return f"the file system of {path} is mounted noexec"
    if flags & os.ST_RDONLY:
        return ""
    checked, is_folder = path, False
    while True:
        status = os.stat(checked)
        if status.st_uid not in (os.geteuid(), 0):
            return f"user {status.st_uid}, to whom {checked} belongs, may exchange the pack"
        if status.st_mode & WRITABLE_BY_OTHERS and not (is_folder and status.st_mode & stat.S_ISVTX):
            return f"{checked} has mode {stat.S_IMODE(status.st_mode):o}, so other users may exchange the pack"
        above = os.path.dirname(checked)
        if above == checked:
            return ""
        checked, is_folder = above, True


def _open_regular(path: str, flags: int) -> int:
    # Opening a named pipe would wait for its writer otherwise.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise PackCorrupt("not a regular file", hint="remove it and fetch the pack again", where=path)
