"""A store in a folder, which several processes and machines may share.

An object is written under a hidden name in its own folder, flushed to disk and then linked to its name, so a reader
sees all of it or nothing, a writer that dies leaves only a hidden file, and of two writers one wins. Nothing is made
before the first write, so a reader of a read-only or absent folder writes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from kernelforge.errors import ObjectCorrupt, StoreDenied, StoreError, StoreFull, StoreUnavailable
from kernelforge.store.interface import (
    PruneStore,
    StoredObject,
    Traffic,
    TrafficMeter,
    compare_with_existing,
    larger_than,
    moved_on,
    no_such_object,
)
from kernelforge.store.layout import check_name, is_name

# What link(2) answers where the file system has no hard links (FAT, many network and FUSE mounts), or no more of them.
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class FileStore(PruneStore):
    """Objects as files under ``root``; the names are the paths."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._meter = TrafficMeter()

    @property
    def location(self) -> str:
        return self._root.as_uri()

    @property
    def traffic(self) -> Traffic:
        return self._meter.reading()

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        return self.get_versioned(name, limit_bytes=limit_bytes)[0]

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        path = self._path(name)
        self._meter.add(gets=1)
        with _our_errors(path, absent=no_such_object(str(path))), open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            _check_is_file(status, path)
            data = file.read(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise larger_than(limit_bytes, str(path))
        self._meter.add(bytes_read=len(data))
        return data, _version(status)

    def size(self, name: str) -> int:
        path = self._path(name)
        self._meter.add(heads=1)
        with _our_errors(path, absent=no_such_object(str(path))):
            status = os.stat(path)
        _check_is_file(status, path)
        return status.st_size

    def create(self, name: str, data: bytes) -> bool:
        path = self._path(name)
        self._meter.add(puts=1)
        with _our_errors(path):
            os.makedirs(path.parent, exist_ok=True)
            unfinished = path.with_name(f".unfinished-{secrets.token_hex(8)}")
            try:
                _write_through(unfinished, data)
                is_first = _publish(unfinished, path)
            finally:
                unfinished.unlink(missing_ok=True)
        if not is_first:
            return compare_with_existing(self, name, data)
        self._meter.add(bytes_written=len(data))
        return True

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        path = self._path(name)
        self._meter.add(puts=1)
        with _our_errors(path, absent=moved_on(str(path))), _turn_in(path.parent):
            unfinished = path.with_name(f".unfinished-{secrets.token_hex(8)}")
            try:
                _check_version(path, version)
                _write_through(unfinished, data)
                os.replace(unfinished, path)
            finally:
                unfinished.unlink(missing_ok=True)
        self._meter.add(bytes_written=len(data))

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        start = prefix.rpartition("/")[0]
        self._meter.add(lists=1)
        for entry, name in self._walk(self._path(start) if start else self._root):
            if name.startswith(prefix):
                with _our_errors(Path(entry.path)):
                    try:
                        status = entry.stat()
                    except FileNotFoundError:
                        continue
                yield StoredObject(name, status.st_size, status.st_mtime, _version(status))

    def delete(self, name: str, *, version: str | None = None) -> None:
        path = self._path(name)
        self._meter.add(deletes=1)
        with _our_errors(path), contextlib.suppress(FileNotFoundError):
            if version is not None:
                with _turn_in(path.parent):
                    _check_version(path, version)
                    path.unlink()
            elif path.is_dir() and not path.is_symlink():
                # Damage, and perhaps somebody's only copy of something: moved out of the way, not destroyed.
                path.rename(path.with_name(f".moved-{secrets.token_hex(8)}"))
            else:
                path.unlink()

    def _path(self, name: str) -> Path:
        check_name(name)
        return self._root / name

    def _walk(self, folder: Path) -> Iterator[tuple[os.DirEntry[str], str]]:
        """The files below ``folder`` and their names; a folder that is absent, or goes away meanwhile, has none."""
        with _our_errors(folder):
            try:
                with os.scandir(folder) as found:
                    entries = list(found)
            except FileNotFoundError:
                return
        for entry in entries:
            name = Path(entry.path).relative_to(self._root).as_posix()
            if is_name(name) and entry.is_dir():
                yield from self._walk(Path(entry.path))
            elif is_name(name):
                yield entry, name


def _version(status: os.stat_result) -> str:
    """Differs after every ``replace``: that brings a new file, and an inode that is used again has a later time."""
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


def _check_version(path: Path, version: str) -> None:
    if _version(os.stat(path)) != version:
        raise moved_on(str(path))


@contextlib.contextmanager
def _turn_in(folder: Path) -> Iterator[None]:
    """One at a time changes or removes what is in ``folder``.

    The lock is the kernel's and ends with its holder; writers on other machines are held back only where the file
    system shares it.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write_through(path: Path, data: bytes) -> None:
    """Write a new file and wait until the disk has it, so that no crash can leave its later name on partial bytes."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _publish(unfinished: Path, path: Path) -> bool:
    """Give a finished file its name unless that is taken; True if it got it."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _publish_by_rename(unfinished, path)
    return True


def _publish_by_rename(unfinished: Path, path: Path) -> bool:
    """``_publish`` where hard links do not exist: rename replaces, so writers take turns."""
    with _turn_in(path.parent):
        if os.path.lexists(path):
            return False
        os.rename(unfinished, path)
        return True


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # opening a named pipe would wait for its writer otherwise


def _check_is_file(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _not_a_file(str(path))


@contextlib.contextmanager
def _our_errors(path: Path, absent: StoreError | None = None) -> Iterator[None]:
    """Turn ``OSError`` into a store error; ``absent`` is the one for a path that is not there."""
    try:
        yield
    except OSError as error:
        if absent is not None and isinstance(error, FileNotFoundError):
            raise absent from error
        raise _our_error(error, str(path)) from error


def _our_error(error: OSError, where: str) -> StoreError:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return StoreFull(reason, hint="make room, or choose another place for the store", where=where)
    if error.errno in (errno.EACCES, errno.EPERM):
        return StoreDenied(reason, hint="give this user access, or choose another place for the store", where=where)
    if error.errno == errno.EISDIR:
        return _not_a_file(where)
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return StoreUnavailable(
            "a file stands where the store needs a folder", hint="remove it, or choose another place", where=where
        )
    return StoreUnavailable(reason, hint="check the disk or the mount", where=where)


def _not_a_file(where: str) -> ObjectCorrupt:
    return ObjectCorrupt("not a file", hint="build again; the next write moves it out of the way", where=where)
