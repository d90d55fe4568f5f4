"""Whether a lockfile's bytes are signed by somebody who is trusted, decided before anybody parses them.

A signature is found under the id of a trusted key, beside the lockfile or in a store, so nothing is ever listed.
Several trusted keys are how keys are rotated: the first signature that holds is enough, one that has ended is passed
over, and one that is not over these bytes is the end, whatever stands under other keys.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kernelforge.digest import Digest
from kernelforge.errors import (
    LockfileError,
    LockfileExpired,
    ObjectCorrupt,
    ObjectMissing,
    UntrustedLockfile,
    UsageError,
)
from kernelforge.release.envelope import SIZE_LIMIT_BYTES, open_envelope
from kernelforge.release.keys import PublicKey
from kernelforge.release.statement import PAYLOAD_TYPE, Statement
from kernelforge.release.utc import utc_text

if TYPE_CHECKING:
    from kernelforge.store.interface import ReadStore

#: From a key's id to the envelope that stands under it, and where that is for messages; None where there is none.
Signatures = Callable[[str], "tuple[bytes, str] | None"]


def trusted_statement(
    lock: Digest, signatures: Signatures, *, trusted: Sequence[PublicKey], now: datetime, where: str
) -> Statement:
    """What a trusted key says about the lockfile whose bytes have this sha256, and still does.

    Raises ``UntrustedLockfile`` (unsigned, foreign, altered, about another lockfile), ``LockfileExpired`` if every
    trusted key's signature has ended, ``UsageError`` if nobody is trusted, and what reading raises.
    """
    if not trusted:
        raise UsageError("no key is trusted, so no lockfile can be", hint="give the public key of the signer")
    expired: LockfileExpired | None = None
    for key in trusted:
        found = signatures(key.key_id)
        if found is None:
            continue
        try:
            return open_signature(found[0], lock, key, now=now, where=found[1])
        except LockfileExpired as error:
            expired = error
    if expired is not None:
        raise expired
    raise UntrustedLockfile(
        f"lockfile {lock} has no signature by {' or '.join(str(key) for key in trusted)}",
        hint="sign it with 'kernelforge sign', or trust the key of whoever did",
        where=where,
        reason="unsigned",
    )


def open_signature(data: bytes, lock: Digest, key: PublicKey, *, now: datetime, where: str) -> Statement:
    """The statement in one envelope, if this key signed it, it is about this lockfile and it holds now."""
    payload = open_envelope(data, payload_type=PAYLOAD_TYPE, trusted=[key], where=where)
    statement = Statement.parse(payload, where=where)
    if statement.lock != lock:
        raise UntrustedLockfile(
            f"the signature is over {statement.lock}, the lockfile is {lock}",
            hint="take lockfile and signature from the same release; sign a lockfile again after every change",
            where=where,
        )
    if statement.expires is not None and now >= statement.expires:
        raise LockfileExpired(
            f"the signature ended at {utc_text(statement.expires)}, and it is {utc_text(now)}",
            hint="deploy a newer release, or sign this one again: kernelforge sign --renew",
            where=where,
        )
    return statement


def stored_signatures(store: ReadStore, lock: Digest) -> Signatures:
    """Those in a store; reading raises ``StoreError``, and ``UntrustedLockfile`` for what is too large to be one."""
    # Not before a store is asked: importing that room takes as long as all else that a check of a file needs.
    from kernelforge.store.layout import signature_name

    def read(key_id: str) -> tuple[bytes, str] | None:
        name = signature_name(lock, key_id)
        where = f"{store.location}: {name}"
        try:
            return store.get(name, limit_bytes=SIZE_LIMIT_BYTES), where
        except ObjectMissing:
            return None
        except ObjectCorrupt as error:
            raise UntrustedLockfile(f"no signature: {error.problem}", hint=error.hint, where=where) from error

    return read


def filed_signatures(lockfile: Path) -> Signatures:
    """Those beside a lockfile's file; reading raises ``LockfileError``."""

    def read(key_id: str) -> tuple[bytes, str] | None:
        path = signature_path(lockfile, key_id)
        try:
            with open(path, "rb", opener=_open_now) as file:
                return file.read(SIZE_LIMIT_BYTES + 1), str(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            problem = f"the signature cannot be read: {error.strerror or error}"
            raise LockfileError(problem, hint="check the file", where=str(path)) from error

    return read


def signature_path(lockfile: Path, key_id: str) -> Path:
    """Beside the lockfile: ``name.lock.json`` -> ``name.sig/<key id>.dsse.json``."""
    return lockfile.with_name(f"{lockfile.name.removesuffix('.lock.json')}.sig") / f"{key_id}.dsse.json"


def _open_now(path: str, flags: int) -> int:
    # A named pipe in its place would be waited for otherwise.
    return os.open(path, flags | os.O_NONBLOCK)
