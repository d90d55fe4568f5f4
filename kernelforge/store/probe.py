"""What a store can do, tried for real: a server's word for it is not enough.

A server that ignores a condition answers like one that knows it, until two writers meet. So each ability is tried where
its absence shows, on small objects of random bytes in a place that the caller chooses. Knows no command and no role.
"""

from __future__ import annotations

import contextlib
import enum
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernelforge.digest import Digest
from kernelforge.errors import FormatUnknown, ObjectConflict, ObjectMissing, StoreError
from kernelforge.store import marker
from kernelforge.store.interface import PruneStore, ReadStore, StoredObject
from kernelforge.store.layout import blob_name
from kernelforge.store.retry import RetryingStore

_SIZE_BYTES = 32
#: Like an ETag, and no object's.
_NO_VERSION = f'"{"0" * 32}"'
#: Clocks that differ by more: S3 refuses requests that are 15 minutes off, ages and expiry go wrong before that.
_SKEW_LIMIT_S = 60.0


class Ability(enum.Enum):
    """The values are words for people."""

    READ = "read"
    CREATE = "create"
    CREATE_ONLY = "create only once"
    READ_BACK = "read what was written"
    CHECKSUM = "check uploads"
    LIST = "list"
    CLOCK = "clock"
    REPLACE = "replace if unchanged"
    DELETE_IF = "delete if unchanged"
    DELETE = "delete"


class Outcome(enum.Enum):
    """``REFUSED``: an error, of the server or on the way to it. ``IGNORED``: the server says yes and does not do it."""

    WORKS = "works"
    REFUSED = "refused"
    IGNORED = "ignored"


@dataclass(frozen=True)
class Finding:
    """What came of one ability. ``error`` is there where it was refused."""

    ability: Ability
    outcome: Outcome
    found: str = ""
    error: StoreError | None = None


def probe_reading(store: ReadStore) -> Finding:
    """Whether anything can be read; writes nothing. ``FormatUnknown`` for a store of another layout."""
    try:
        marker.check(store)
    except FormatUnknown:
        raise
    except StoreError as error:
        return Finding(Ability.READ, Outcome.REFUSED, error.problem, error)
    return Finding(Ability.READ, Outcome.WORKS, f"{_milliseconds(lambda: marker.check(store)):.1f} ms a read")


def probe_writing(store: PruneStore, place: Callable[[Digest], str] = blob_name) -> Iterator[Finding]:
    """Every other ability, one after the other; nothing stays of it where deleting works.

    ``place`` names an object by the sha256 of its bytes: one that the caller's work writes, so that permissions are
    tried where they count, and that garbage collection removes should it be left behind.
    """
    probe = _Probe(store, place)
    created = _tried(Ability.CREATE, probe.create)
    yield created
    if created.outcome is not Outcome.WORKS:
        yield _tried(Ability.LIST, probe.list_nothing)
        return
    attempts = {
        Ability.READ_BACK: probe.read_back,
        Ability.CREATE_ONLY: probe.create_again,
        Ability.CHECKSUM: probe.upload_damage,
        Ability.LIST: probe.list,
        Ability.CLOCK: probe.compare_clocks,
        Ability.REPLACE: probe.replace,
        Ability.DELETE_IF: probe.delete_if_unchanged,
        Ability.DELETE: probe.delete,
    }
    for ability, attempt in attempts.items():
        yield _tried(ability, attempt)


class _Ignored(Exception):
    """The store says that it did what it did not do."""


def _tried(ability: Ability, attempt: Callable[[], str]) -> Finding:
    try:
        return Finding(ability, Outcome.WORKS, attempt())
    except _Ignored as what:
        return Finding(ability, Outcome.IGNORED, str(what))
    except StoreError as error:
        return Finding(ability, Outcome.REFUSED, error.problem, error)


class _Probe:
    """One object that the attempts are made on; each says what is worth knowing beyond that it worked."""

    def __init__(self, store: PruneStore, place: Callable[[Digest], str]) -> None:
        self._store = store
        self._data = secrets.token_bytes(_SIZE_BYTES)
        self._other = secrets.token_bytes(_SIZE_BYTES)
        self._name, self._other_name = (place(Digest.of(data)) for data in (self._data, self._other))
        self._written_at = 0.0

    def create(self) -> str:
        took_ms = _milliseconds(lambda: self._store.create(self._name, self._data))
        self._written_at = time.time()
        return f"{took_ms:.1f} ms a write"

    def read_back(self) -> str:
        if self._read() != self._data:
            raise _Ignored("other bytes came back than were written")
        return ""

    def create_again(self) -> str:
        with contextlib.suppress(ObjectConflict):
            self._store.create(self._name, self._other)
            self._put_right()
            raise _Ignored("it replaced an object that was there: it ignores If-None-Match")
        return ""

    def upload_damage(self) -> str:
        if not isinstance(self._store, RetryingStore):
            return "nothing is uploaded"
        if not self._store.refuses_damage(self._other_name):
            raise _Ignored("it keeps bytes that are not those of their sha256")
        return ""

    def list_nothing(self) -> str:
        for _ in self._store.listed(self._name):
            pass
        return ""

    def list(self) -> str:
        self._entry()
        return ""

    def compare_clocks(self) -> str:
        ahead_s = self._entry().modified_s - self._written_at
        if abs(ahead_s) > _SKEW_LIMIT_S:
            raise _Ignored(f"the store's clock is {abs(ahead_s):.0f} s {'ahead' if ahead_s > 0 else 'behind'}")
        return f"{ahead_s:+.0f} s"

    def replace(self) -> str:
        with contextlib.suppress(ObjectConflict):
            self._store.replace(self._name, self._other, version=_NO_VERSION)
            self._put_right()
            raise _Ignored("it replaced a version that was not there: it ignores If-Match")
        self._store.replace(self._name, self._other, version=self._version())
        if self._read() != self._other:
            raise _Ignored("the old bytes were read after they were replaced")
        self._store.replace(self._name, self._data, version=self._version())
        return ""

    def delete_if_unchanged(self) -> str:
        with contextlib.suppress(ObjectConflict):
            self._store.delete(self._name, version=_NO_VERSION)
            raise _Ignored("it removed a version that was not there: it ignores If-Match on DELETE")
        self._store.delete(self._name, version=self._version())
        return ""

    def delete(self) -> str:
        self._store.create(self._name, self._data)
        self._store.delete(self._name)
        try:
            self._read()
        except ObjectMissing:
            return ""
        raise _Ignored("the object is still there after it was deleted")

    def _read(self) -> bytes:
        return self._store.get(self._name, limit_bytes=_SIZE_BYTES)

    def _version(self) -> str:
        return self._store.get_versioned(self._name, limit_bytes=_SIZE_BYTES)[1]

    def _entry(self) -> StoredObject:
        for entry in self._store.listed(self._name):
            return entry
        raise _Ignored("its listing does not show an object that was just written")

    def _put_right(self) -> None:
        """Bytes that are not those of their name would be found as damage one day."""
        with contextlib.suppress(StoreError):
            self._store.replace(self._name, self._data, version=self._version())


def _milliseconds(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return 1e3 * (time.monotonic() - started)
