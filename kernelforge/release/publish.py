"""Writes a lockfile: to the working folder for review in git, and to the store for pods.

The order is the promise: a lockfile is in a store only when every pack that it names is. Writing is by rename and only
when the bytes differ, so that a build that changed nothing leaves files and git alone.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kernelforge.digest import Digest
from kernelforge.errors import StoreFull
from kernelforge.lockfile import Lockfile
from kernelforge.store.blobs import check_blob
from kernelforge.store.interface import WriteStore
from kernelforge.store.layout import about_name, lock_name


def write_file(path: Path, data: bytes) -> bool:
    """Put ``data`` at ``path`` atomically; False if it was there already. ``StoreFull`` when it cannot be written."""
    try:
        if path.exists() and path.read_bytes() == data:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data)
    except OSError as error:
        raise StoreFull(f"cannot write: {error.strerror}", hint="choose another --lock", where=str(path)) from error
    return True


def publish_lockfile(lock: Lockfile, store: WriteStore, *, facts: bytes | None) -> Digest:
    """Create the lockfile, and build facts where there are any, in ``store`` after checking that every pack is there.

    Objects were checked when they were written or found; packs are what a pod asks for. Raises what
    ``check_blob`` raises.
    """
    for pack in lock.packs.values():
        check_blob(store, pack.blob)
    data = lock.to_bytes()
    digest = Digest.of(data)
    store.create(lock_name(digest), data)
    if facts is not None:
        store.create(about_name(digest, "facts", Digest.of(facts)), facts)
    return digest


def _replace(path: Path, data: bytes) -> None:
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
