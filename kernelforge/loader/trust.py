"""Why a lockfile may be believed: the caller's word, checked before a byte of the lockfile is parsed.

A lockfile decides which native code runs, so nothing here trusts a place: not a store, not a path, not a name. What a
trusted lockfile says is for the next steps; here only whether this version can call what it has. A refusal is final:
nothing is tried again, and no older lockfile is taken instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelforge.contract import ABI, CONTRACT_VERSION
from kernelforge.digest import Digest
from kernelforge.errors import LockfileError, UntrustedLockfile, UsageError
from kernelforge.loader.serials import SerialMemory
from kernelforge.loader.source import Channel, FoundLock, FromStore, LockSource, find_lock
from kernelforge.lockfile import Lockfile

if TYPE_CHECKING:
    from datetime import datetime

    from kernelforge.release.keys import PublicKey
    from kernelforge.release.statement import Statement
    from kernelforge.store.bundle import BundleStore
    from kernelforge.store.interface import ReadStore

    TrustedKey = PublicKey | str | os.PathLike[str]


@dataclass(frozen=True)
class PinnedDigest:
    """Exactly the lockfile with this sha256, wherever its bytes come from; given as ``sha256:<hex>`` or ``Digest``."""

    digest: Digest

    def __init__(self, digest: Digest | str) -> None:
        object.__setattr__(self, "digest", digest if isinstance(digest, Digest) else Digest.parse(digest))


@dataclass(frozen=True)
class LocalFile:
    """The caller vouches for the file at the given path: whoever can write to it decides what this process runs."""


@dataclass(frozen=True)
class TrustedKeys:
    """Any lockfile that one of these keys has signed and whose signature holds today; each a key or its ``.pub`` file.

    Of a channel also what it points at must be signed and not too old: its serial is at least ``minimum_serial`` and,
    where there is a cache folder, at least the highest that this machine has seen.
    """

    keys: tuple[TrustedKey, ...]
    minimum_serial: int = 0

    def __init__(self, keys: Sequence[TrustedKey], *, minimum_serial: int = 0) -> None:
        if isinstance(keys, str) or not keys:  # a text is a sequence too: of letters
            raise UsageError(f"{keys!r} is no list of keys", hint="trust=TrustedKeys(['release.key.pub'])")
        if type(minimum_serial) is not int or minimum_serial < 0:
            raise UsageError(f"{minimum_serial!r} is no serial", hint="serials count from 1; 0 asks for none")
        object.__setattr__(self, "keys", tuple(keys))
        object.__setattr__(self, "minimum_serial", minimum_serial)

    def public_keys(self) -> tuple[PublicKey, ...]:
        """The keys, read from their files; ``UsageError`` for a file that holds none."""
        from kernelforge.release.keys import PublicKey, read_public_key

        return tuple(key if isinstance(key, PublicKey) else read_public_key(Path(key)) for key in self.keys)


Trust = PinnedDigest | LocalFile | TrustedKeys


@dataclass(frozen=True)
class TrustedBytes:
    """A lockfile's bytes after the check; ``where`` says for error messages where they came from.

    ``is_pinned``: they are byte for byte those that somebody chose, so nobody edited or merged them since. ``bundle``
    has the packs too, if the lockfile came out of one. ``statement`` is what a trusted key has signed about it, if keys
    are trusted.
    """

    data: bytes
    digest: Digest
    where: str
    is_pinned: bool
    bundle: BundleStore | None = None
    statement: Statement | None = None


def read_trusted(
    lockfile: LockSource,
    trust: Trust,
    *,
    store: Callable[[], ReadStore | None] = lambda: None,
    serials: SerialMemory | None = None,
    now: datetime | None = None,
) -> TrustedBytes:
    """Read a lockfile and hold it against ``trust``.

    ``store`` opens the store that ``FromStore`` and ``Channel`` mean; ``serials`` remembers those of channels; ``now``
    is by default this machine's clock.

    Raises ``UntrustedLockfile``, whose ``reason`` says what the bytes lack, with ``LockfileExpired`` and
    ``LockfileRolledBack``; ``LockfileError`` when a file cannot be read; ``StoreError``; ``UsageError`` for a ``trust``
    that is none, and for a source that needs what is not given; ``ToolchainError`` where keys are trusted and what
    checks signatures is not installed.
    """
    if not isinstance(trust, Trust):
        raise UsageError(
            f"{trust!r} is no reason to trust a lockfile",
            hint="trust=PinnedDigest(...), TrustedKeys(...) or LocalFile()",
        )
    if isinstance(lockfile, Channel):
        return _from_channel(lockfile, trust, store(), serials or SerialMemory(None), now or _today())
    if isinstance(trust, TrustedKeys) and trust.minimum_serial:
        raise UsageError("minimum_serial is about channels, and this is none", hint="leave it out, or load a Channel")
    found, statement = find_lock(lockfile, store() if isinstance(lockfile, FromStore) else None), None
    if isinstance(trust, TrustedKeys):
        statement = _statement(found, trust.public_keys(), now or _today())
    elif isinstance(trust, LocalFile):
        _check_is_file(found)
    elif found.digest != trust.digest:
        raise UntrustedLockfile(
            f"the lockfile is {found.digest}, pinned is {trust.digest}",
            hint="deploy the pinned lockfile, or pin the new one after reviewing it",
            where=found.where,
            reason="unpinned",
        )
    is_pinned = not isinstance(trust, LocalFile)
    return TrustedBytes(found.data, found.digest, found.where, is_pinned, found.bundle, statement)


def _from_channel(
    channel: Channel, trust: Trust, store: ReadStore | None, serials: SerialMemory, now: datetime
) -> TrustedBytes:
    """The lockfile that a channel points at, if the ref is signed, current and no older than what was seen before."""
    if not isinstance(trust, TrustedKeys):
        raise UntrustedLockfile(
            f"{channel} is moved without this process being asked, so it has to be signed, and no key is trusted",
            hint="trust=TrustedKeys(['release.key.pub']), or FromStore('sha256:...') with PinnedDigest for one",
            where=str(channel),
            reason="unsigned",
        )
    if store is None:
        raise UsageError(f"{channel} is in a store, and none is given", hint="give store=", where=str(channel))
    from kernelforge.release.refs import check_serial, read_ref

    keys = trust.public_keys()
    ref = read_ref(store, channel.deployment, channel.channel, trusted=keys, now=now)
    seen = max(trust.minimum_serial, serials.highest(channel.deployment, channel.channel))
    check_serial(ref, seen, where=f"{store.location}: {channel}")
    found = find_lock(FromStore(ref.lock), store)
    statement = _statement(found, keys, now)
    serials.keep(channel.deployment, channel.channel, ref.serial)
    return TrustedBytes(found.data, found.digest, found.where, is_pinned=True, statement=statement)


def _statement(found: FoundLock, keys: Sequence[PublicKey], now: datetime) -> Statement:
    """What one of the keys has signed about these bytes; beside bytes in hand there is no place for a signature."""
    from kernelforge.release.signature import filed_signatures, stored_signatures, trusted_statement

    store = found.bundle or found.store
    if store is not None:
        signatures = stored_signatures(store, found.digest)
    elif found.file is not None:
        signatures = filed_signatures(found.file)
    else:
        raise UntrustedLockfile(
            "bytes in hand come without a signature",
            hint="give the path of the lockfile, beside which its signature is, FromStore(...) or Bundle(...)",
            reason="unsigned",
        )
    return trusted_statement(found.digest, signatures, trusted=keys, now=now, where=found.where)


def _check_is_file(found: FoundLock) -> None:
    if found.file is None:
        raise UntrustedLockfile(
            "LocalFile() vouches for a file, and this is none",
            hint="pin it: PinnedDigest('sha256:...'), or trust who signed it: TrustedKeys(['release.key.pub'])",
            where=found.where,
            reason="unpinned",
        )


def _today() -> datetime:
    from datetime import datetime, timezone

    return datetime.now(timezone.utc)


def parse_trusted(trusted: TrustedBytes) -> Lockfile:
    """The lockfile, if this version can call what it has; ``LockfileError`` if not, or if it is none.

    ``ObjectCorrupt`` if it came in a bundle with blobs that it does not name: those may be anything.
    """
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
    if trusted.bundle is not None:
        trusted.bundle.check_named_by(lock)
    return lock
