"""Writes a lockfile: to the working folder for review in git, and to the store for pods.

The order is the promise: a lockfile is in a store only when every pack and object that it names is. Writing is by
rename and only when the bytes differ, so that a build that changed nothing leaves files and git alone.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing, StoreError, StoreFull
from kernelforge.lockfile import Lockfile
from kernelforge.store.actions import ActionCache
from kernelforge.store.announcements import announce, sweep_since
from kernelforge.store.faults import faults
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import about_name, blob_name, lock_name
from kernelforge.store.published import record_published
from kernelforge.store.quarantine import Finder, set_aside

_log = logging.getLogger(__name__)


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


def publish_lockfile(lock: Lockfile, store: PruneStore, *, facts: bytes | None, domain: str | None = None) -> Digest:
    """Create the lockfile, and build facts where there are any, in ``store``: after everything that it names.

    With ``domain``, a record that builds of this domain may take the lockfile's word from now on. Every pack and object
    is looked for before the lockfile is written and once more afterwards; if the store has the lockfile already, that
    was done, and only the packs are. What is found lost goes on the store's list of damage, so that the next build
    makes it again, and ``ObjectMissing`` or ``ObjectCorrupt`` is raised. A damaged copy of the lockfile is replaced.
    """
    data = lock.to_bytes()
    digest = Digest.of(data)
    if _has(store, digest, data):
        _check(store, [pack.blob for pack in lock.packs.values()], digest)
    else:
        _create(store, digest, data, lock.blobs)
    if facts is not None:
        store.create(about_name(digest, "facts", Digest.of(facts)), facts)
    if domain is not None:
        blobs = {device: pack.blob for device, pack in lock.packs.items()}
        record_published(ActionCache(store, domain), digest, blobs)
    return digest


def _has(store: PruneStore, digest: Digest, data: bytes) -> bool:
    """Whether the store has the lockfile; anything else under its name is moved to quarantine."""
    name = lock_name(digest)
    try:
        if store.get(name, limit_bytes=len(data)) == data:
            return True
    except ObjectMissing:
        return False
    except ObjectCorrupt as error:
        _log.warning("replacing a damaged lockfile: %s", error)
    set_aside(store, [name], _finder(digest))
    return False


def _create(store: PruneStore, digest: Digest, data: bytes, blobs: Sequence[Descriptor]) -> None:
    announced = announce(store, locks=[digest], blobs=[blob.stored_digest for blob in blobs])
    _check(store, blobs, digest)
    if sweep_since(store, announced):
        _check(store, blobs, digest)
    store.create(lock_name(digest), data)
    _check(store, blobs, digest)


def _check(store: PruneStore, blobs: Sequence[Descriptor], lock: Digest) -> None:
    found = faults(store, blobs)
    if not found:
        return
    try:
        set_aside(store, [blob_name(blob.stored_digest) for blob in found], _finder(lock))
    except StoreError as error:
        _log.warning("the next build will not know of the damage: %s", error)
    first = next(iter(found.values()))
    raise type(first)(
        f"{len(found)} of {len(set(blobs))} packs and objects cannot be used; {first.problem}",
        hint="run the same build again: it makes them again",
        where=first.where,
    ) from first


def _finder(lock: Digest) -> Finder:
    return Finder("publishing", datetime.now(timezone.utc), lock)


def _replace(path: Path, data: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        # Not by tempfile, whose files only their owner may read: what the umask allows is what was meant.
        with open(unfinished, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
