"""Why a lockfile may be believed: the caller's word, checked before a byte of the lockfile is parsed.

A lockfile decides which native code runs, so nothing here trusts a place: not a store, not a path, not a name. What a
trusted lockfile says is for the next steps; here only whether this version can call what it has.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from kernelforge.contract import ABI, CONTRACT_VERSION
from kernelforge.digest import Digest
from kernelforge.errors import LockfileError, UntrustedLockfile, UsageError
from kernelforge.lockfile import SIZE_LIMIT_BYTES, Lockfile


@dataclass(frozen=True)
class PinnedDigest:
    """Exactly the lockfile with this sha256, wherever its bytes come from; given as ``sha256:<hex>`` or ``Digest``."""

    digest: Digest

    def __init__(self, digest: Digest | str) -> None:
        object.__setattr__(self, "digest", digest if isinstance(digest, Digest) else Digest.parse(digest))


@dataclass(frozen=True)
class LocalFile:
    """The caller vouches for the file at the given path: whoever can write to it decides what this process runs."""


Trust = PinnedDigest | LocalFile


@dataclass(frozen=True)
class TrustedBytes:
    """A lockfile's bytes after the check; ``where`` says for error messages where they came from.

    ``is_pinned``: they are byte for byte those that somebody chose, so nobody edited or merged them since.
    """

    data: bytes
    digest: Digest
    where: str
    is_pinned: bool


def read_trusted(lockfile: str | os.PathLike[str] | bytes, trust: Trust) -> TrustedBytes:
    """Read a lockfile and hold it against ``trust``.

    Raises ``UntrustedLockfile`` when the bytes are not those that were pinned, or are bytes that nothing vouches for;
    ``LockfileError`` when the file cannot be read; ``UsageError`` for a ``trust`` that is none.
    """
    if not isinstance(trust, PinnedDigest | LocalFile):
        raise UsageError(f"{trust!r} is no reason to trust a lockfile", hint="trust=PinnedDigest(...) or LocalFile()")
    if isinstance(lockfile, bytes):
        data, where = lockfile, "lockfile"
    else:
        data, where = _read(lockfile), os.fspath(lockfile)
    digest = Digest.of(data)
    if isinstance(trust, LocalFile):
        if isinstance(lockfile, bytes):
            raise UntrustedLockfile(
                "LocalFile() vouches for a file, and these are bytes", hint="pin them: PinnedDigest('sha256:...')"
            )
    elif digest != trust.digest:
        raise UntrustedLockfile(
            f"the lockfile is {digest}, pinned is {trust.digest}",
            hint="deploy the pinned lockfile, or pin the new one after reviewing it",
            where=where,
        )
    return TrustedBytes(data, digest, where, isinstance(trust, PinnedDigest))


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


def parse_trusted(trusted: TrustedBytes) -> Lockfile:
    """The lockfile, if this version can call what it has; ``LockfileError`` if not, or if it is none."""
    read = Lockfile.parse_pinned if trusted.is_pinned else Lockfile.parse
    lock = read(trusted.data, where=trusted.where)
    for what, found, expected in (
        ("call interface", lock.abi, ABI),
        ("version of the kernel contract", lock.contract, CONTRACT_VERSION),
    ):
        if found != expected:
            raise LockfileError(
                f"its {what} is {found!r}, this loader's is {expected!r}",
                hint="install the kernelforge that built the lockfile, or build again with this one",
                where=trusted.where,
            )
    return lock
