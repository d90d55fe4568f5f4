"""Signs lockfiles, and puts the signature where ``signature`` looks for it: beside the file, and into a store.

A signature that holds is kept, so that signing again changes nothing; one that has ended is replaced only by somebody
who says so, and one that is damaged always, which the log tells.
"""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from kernelforge.digest import Digest
from kernelforge.errors import LockfileError, LockfileExpired, ObjectConflict, UntrustedLockfile
from kernelforge.lockfile import Lockfile
from kernelforge.release.envelope import SIZE_LIMIT_BYTES, seal
from kernelforge.release.keys import PublicKey, SigningKey
from kernelforge.release.publish import publish_lockfile, write_file
from kernelforge.release.signature import filed_signatures, open_signature, signature_path
from kernelforge.release.statement import PAYLOAD_TYPE, Statement
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import signature_name

_log = logging.getLogger(__name__)


def sign(statement: Statement, key: SigningKey) -> bytes:
    """The envelope that says ``statement`` in the name of ``key``."""
    return seal(statement.to_bytes(), PAYLOAD_TYPE, key)


def check_signable(data: bytes, lock: Lockfile, *, where: str) -> None:
    """``LockfileError`` unless the bytes are those that a build writes: others would not be found by their digest."""
    if lock.to_bytes() != data:
        raise LockfileError(
            "these are not the bytes that a build wrote, although they say the same",
            hint="build it again; do not format or edit a lockfile",
            where=where,
        )


def put_beside(lockfile: Path, envelope: bytes, lock: Digest, key: PublicKey, *, now: datetime, renew: bool) -> bytes:
    """Write the signature beside the lockfile; the one that stands there in the end.

    ``LockfileExpired`` if the one that is there has ended and ``renew`` is not asked for.
    """
    found = filed_signatures(lockfile)(key.key_id)
    kept = envelope if found is None else _chosen(found[0], envelope, lock, key, now=now, renew=renew, where=found[1])
    write_file(signature_path(lockfile, key.key_id), kept)
    return kept


def publish_signature(
    store: PruneStore, lock: Lockfile, envelope: bytes, key: PublicKey, *, now: datetime, renew: bool
) -> bytes:
    """Write the signature into a store, after the lockfile, after a check of its packs; the one that is there then.

    Raises what ``publish_lockfile`` and ``put_beside`` raise; ``ObjectConflict`` if somebody else renews it meanwhile.
    """
    digest = publish_lockfile(lock, store, facts=None)
    name = signature_name(digest, key.key_id)
    try:
        store.create(name, envelope)
    except ObjectConflict:
        found, version = store.get_versioned(name, limit_bytes=SIZE_LIMIT_BYTES)
        where = f"{store.location}: {name}"
        kept = _chosen(found, envelope, digest, key, now=now, renew=renew, where=where)
        if kept != found:
            store.replace(name, kept, version=version)
        return kept
    return envelope


def _chosen(
    found: bytes, envelope: bytes, lock: Digest, key: PublicKey, *, now: datetime, renew: bool, where: str
) -> bytes:
    if renew:
        return envelope
    try:
        open_signature(found, lock, key, now=now, where=where)
    except LockfileExpired:
        raise
    except UntrustedLockfile as error:
        _log.warning("replacing a signature that is none: %s", error)
        return envelope
    return found
