"""Where a lockfile's bytes come from. A place is never a reason to believe them; that is ``trust``.

A file, bytes in hand, a store (by digest, or by the channel that points at it) or a bundle: one file with all of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelforge.digest import Digest
from kernelforge.errors import LockfileError, UsageError
from kernelforge.lockfile import SIZE_LIMIT_BYTES

if TYPE_CHECKING:
    from kernelforge.store.bundle import BundleStore
    from kernelforge.store.interface import ReadStore


@dataclass(frozen=True)
class FromStore:
    """The lockfile with this sha256 in the store of the load; given as ``sha256:<hex>`` or ``Digest``."""

    digest: Digest

    def __init__(self, digest: Digest | str) -> None:
        object.__setattr__(self, "digest", digest if isinstance(digest, Digest) else Digest.parse(digest))


@dataclass(frozen=True)
class Channel:
    """Whatever lockfile the channel of a deployment points at now, in the store of the load."""

    deployment: str
    channel: str

    def __str__(self) -> str:
        return f"{self.deployment}/{self.channel}"


@dataclass(frozen=True)
class Bundle:
    """The lockfile in the bundle at this path, which has its signatures and packs too; no store is asked."""

    path: str | os.PathLike[str]


LockSource = str | os.PathLike[str] | bytes | FromStore | Channel | Bundle


@dataclass(frozen=True)
class FoundLock:
    """Unchecked bytes, but for those out of a store or bundle: they have the sha256 that was asked for.

    Signatures are in ``bundle`` or ``store``, else beside ``file``; bytes in hand have neither. A bundle is a file too.
    """

    data: bytes
    digest: Digest
    where: str
    file: Path | None = None
    store: ReadStore | None = None
    bundle: BundleStore | None = None


def find_lock(source: str | os.PathLike[str] | bytes | FromStore | Bundle, store: ReadStore | None) -> FoundLock:
    """The bytes at ``source``, which are looked for in ``store`` if it is a digest.

    Raises ``LockfileError`` for a file that cannot be read, ``UsageError`` for a store that is not given, and
    ``StoreError``.
    """
    if isinstance(source, FromStore):
        if store is None:
            raise UsageError(f"lockfile {source.digest} is to come from a store, and none is given", hint="give store=")
        from kernelforge.release.stored_lock import stored_lock

        where = f"{store.location}: {source.digest}"
        return FoundLock(stored_lock(store, source.digest), source.digest, where, store=store)
    if isinstance(source, Bundle):
        return _in_bundle(Path(source.path))
    if isinstance(source, bytes):
        return FoundLock(source, Digest.of(source), "lockfile")
    data = _read(source)
    return FoundLock(data, Digest.of(data), os.fspath(source), file=Path(source))


def _in_bundle(path: Path) -> FoundLock:
    from kernelforge.release.stored_lock import stored_lock
    from kernelforge.store.bundle import BundleStore

    bundle = BundleStore(path)
    data = stored_lock(bundle, bundle.lock)
    return FoundLock(data, bundle.lock, f"{bundle.location}: {bundle.lock}", file=path, bundle=bundle)


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            # First what the file says it has: to make room for the limit takes longer than to read 60 kernels' entries.
            # One byte more than is allowed, so that the parser refuses what is too large instead of a part of it.
            size_bytes = min(os.fstat(file.fileno()).st_size, SIZE_LIMIT_BYTES)
            data = file.read(size_bytes + 1)
            return data if len(data) <= size_bytes else data + file.read(SIZE_LIMIT_BYTES - size_bytes)
    except OSError as error:
        raise LockfileError(
            f"the lockfile cannot be read: {error.strerror or error}", hint="check the path", where=os.fspath(path)
        ) from error
