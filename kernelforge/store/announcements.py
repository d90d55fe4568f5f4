"""Announcements: what a publisher is about to refer to, so that garbage collection leaves it alone for a day.

New objects are safe by their age. What a build or a promotion takes over from earlier ones is not: it may be old, and
unreachable until the new lockfile or ref names it. Said once, in one object, before it is relied on:

    before = read_lease(store)                   only where blobs are looked up before they can be announced
    announced = announce(store, locks=[...], blobs=[...], before=before)
    ... look whether everything is there ...     (not needed again if that was done after ``before`` was read)
    if sweep_since(store, announced):            a sweep was deleting meanwhile; it has heard of us by now
        ... look once more: what is there now stays for a day ...

That costs three requests, whatever the number of keys. Knows no lockfile: digests only.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernelforge import json_values
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt
from kernelforge.store.documents import Json, from_bytes, to_bytes
from kernelforge.store.interface import ReadStore, WriteStore
from kernelforge.store.layout import GC_PREFIX
from kernelforge.store.sweeps import Lease, read_lease

_log = logging.getLogger(__name__)

PREFIX = f"{GC_PREFIX}announced/"
SCHEMA = "kernelforge.announcement/1"
#: 10,000 keys with an object and a cubin each take 1.6 MB.
SIZE_LIMIT_BYTES = 64 << 20
#: For how long garbage collection heeds one, by the store's clock.
KEPT_S = 24 * 3600.0
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Announcement:
    """One that was made: its name in the store, and what was seen of sweeps before and after it was written."""

    name: str
    before: Lease | None
    after: Lease


@dataclass(frozen=True, slots=True)
class Announced:
    """What an announcement names. None of it need be there."""

    locks: frozenset[Digest]
    blobs: frozenset[Digest]


def announce(
    store: WriteStore, *, locks: Iterable[Digest], blobs: Iterable[Digest], before: Lease | None = None
) -> Announcement:
    """Say that these lockfiles (with all that they name) and these stored digests are about to be referred to.

    ``before`` is what ``read_lease`` gave before the caller first looked whether they are there; leave it out where
    that is still to be done. Two requests. Raises what ``create`` and ``get`` raise.
    """
    data = _to_bytes(locks, blobs)
    name = f"{PREFIX}{Digest.of(data).hex}.json"
    store.create(name, data)
    # In this order: a sweep writes its round and then reads announcements, so one of the two sees the other.
    return Announcement(name, before, read_lease(store))


def sweep_since(
    store: ReadStore,
    announcement: Announcement,
    *,
    now_s: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Whether what the caller found may have been deleted before the announcement was heard: look again then.

    If a sweep was deleting when the announcement was made, this waits for its next round, which takes seconds (two
    minutes if the sweep died). Afterwards everything that is announced, and is there, stays. No request unless it has
    to wait.
    """
    before, seen = announcement.before, announcement.after
    is_late = before is not None and (before.number != seen.number or before.ends_s is not None)
    if not seen.may_delete(now_s()):
        return is_late
    _log.info("waiting for the garbage collection of %s to hear of this: %s", seen.holder, store.location)
    while True:
        lease = read_lease(store)
        if (lease.number, lease.round) != (seen.number, seen.round) or not lease.may_delete(now_s()):
            return True
        pause(_POLL_S)


def read_announcement(store: ReadStore, name: str) -> Announced:
    """What the announcement of this name says; ``ObjectCorrupt`` if it is none, and what ``get`` raises."""
    where = f"{store.location}: {name}"
    document = from_bytes(store.get(name, limit_bytes=SIZE_LIMIT_BYTES), schema=SCHEMA, where=where)
    try:
        members = json_values.members(document, _MEMBERS)
    except ValueError as error:
        hint = "delete it, and run again whatever was publishing"
        raise ObjectCorrupt(f"not an announcement: {error}", hint=hint, where=where) from error
    return Announced(frozenset(members["locks"]), frozenset(members["blobs"]))


def _to_bytes(locks: Iterable[Digest], blobs: Iterable[Digest]) -> bytes:
    document: dict[str, Json] = {
        "schema": SCHEMA,
        "locks": [*sorted(map(str, set(locks)))],
        "blobs": [*sorted(map(str, set(blobs)))],
        # Saying the same thing again must give a new object: the age of an announcement is that of its object.
        "nonce": secrets.token_hex(16),
    }
    return to_bytes(document, where="announcement")


def _digest(value: object) -> Digest:
    return Digest.parse(json_values.text(value))


_MEMBERS = {
    "schema": json_values.text,
    "locks": json_values.items(_digest),
    "blobs": json_values.items(_digest),
    "nonce": json_values.text,
}
