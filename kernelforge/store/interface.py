"""What a store can do, in three tiers: read < write < prune. Callers ask for the least tier that serves them.

A store holds named byte strings, immutable but for the few that ``replace`` moves. It knows nothing of blobs, records
or lockfiles: ``layout`` has the names, ``blobs`` and ``actions`` the meaning. There is no ``exists``: the answer would
be old before it is used, so ask for the object (or its size) and let ``ObjectMissing`` say that it is not there.

Every method raises ``UsageError`` for a name that ``layout.check_name`` refuses, and these, which callers tell apart:

    ObjectMissing     the store answered: no such object. The only one that is a miss
    ObjectCorrupt     something is there that cannot be the object: larger than the limit, a folder
    StoreDenied       our credentials or permissions do not suffice
    StoreUnavailable  no answer in time, or one that says: not now
    StoreFull         no room, or a read-only place (writes only)
    ObjectConflict    the name holds other bytes (``create``), or another version than the one asked for
"""

from __future__ import annotations

import operator
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from typing import Protocol, TypeAlias

from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing, StoreUnavailable


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests that went out to the store so far, tries that failed included, and bytes of the objects moved."""

    gets: int = 0
    heads: int = 0
    puts: int = 0
    lists: int = 0
    deletes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def requests(self) -> int:
        """All requests for objects, whatever they asked."""
        return self.gets + self.heads + self.puts + self.lists + self.deletes

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*map(operator.add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object as a listing shows it.

    ``modified_s`` is when it was written, in seconds since 1970 by the store's own clock; compare it with times of the
    same store only. ``version`` changes with the bytes, and in some stores with every write.
    """

    name: str
    size_bytes: int
    modified_s: float
    version: str


Page: TypeAlias = tuple[list[StoredObject], "str | None"]


class ReadStore(Protocol):
    """All that a pod needs."""

    @property
    def location(self) -> str:
        """Where the bytes are; ``locate.open_store`` makes an equal store of it. Holds no secret."""

    @property
    def traffic(self) -> Traffic:
        """Requests and bytes since this object was made."""

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        """The whole object; ``ObjectCorrupt`` if it is larger than ``limit_bytes``, without reading it all."""

    def size(self, name: str) -> int:
        """Size of the object in bytes, without reading it."""


class WriteStore(ReadStore, Protocol):
    """What a publisher needs."""

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that is not there yet. Never replaces one; readers see all of the bytes or no object.

        True if this call wrote it, False if the same bytes were there (an earlier try of ours may have brought them);
        ``ObjectConflict`` if other bytes were. Of several callers at once exactly one wins.
        """

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        """``get``, and the version that ``replace`` wants to see."""

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        """Put ``data`` in the place of the object that has ``version``; readers see the old bytes or the new ones.

        ``ObjectConflict`` if it has another version by now, or is gone. Of several callers with one version at most
        one wins. After ``StoreUnavailable`` it is not known whether the bytes were replaced: read them.
        """


class PruneStore(WriteStore, Protocol):
    """What repair and garbage collection need."""

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        """Every object whose name starts with ``prefix``, in no particular order; unfinished writes are not among them.

        An object that is written or deleted meanwhile may or may not be seen; every other one is.
        """

    def names(self, prefix: str = "") -> Iterator[str]:
        """The names of what is ``listed``."""
        return (found.name for found in self.listed(prefix))

    def delete(self, name: str, *, version: str | None = None) -> None:
        """Remove whatever stands under this name; nothing to remove is fine.

        With ``version``, ``ObjectConflict`` if the object has another one by now; it stays then.
        """


class RemoteStore(PruneStore, Protocol):
    """A server that is asked over a network, one try a call; ``RetryingStore`` makes a dependable store of it."""

    def page(self, prefix: str, after: str | None) -> Page:
        """One request of ``listed``, so that a page that failed can be asked for again.

        The objects of one page and what to give as ``after`` for the next; None: the first page, or no next.
        """

    def refuses_damage(self, name: str) -> bool:
        """Whether an upload whose bytes are not those of its sha256 is refused; nothing stays under ``name``."""


def all_pages(page: Callable[[str | None], Page]) -> Iterator[StoredObject]:
    """Every object of every page."""
    after = None
    while True:
        found, after = page(after)
        yield from found
        if after is None:
            return


class TrafficMeter:
    """Counts for ``Traffic``, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, **counts: int) -> None:
        """Add to the fields of ``Traffic`` that are named."""
        with self._lock:
            self._counts.update(counts)

    def reading(self) -> Traffic:
        """The counts so far."""
        with self._lock:
            return Traffic(**self._counts)


def no_such_object(where: str) -> ObjectMissing:
    """The error for a name that holds nothing."""
    return ObjectMissing("no such object", hint="build it, or look in another store", where=where)


def larger_than(limit_bytes: int, where: str) -> ObjectCorrupt:
    """The error for an object that exceeds what the caller knows to be its size."""
    return ObjectCorrupt(
        f"larger than the {limit_bytes} bytes that can be right", hint="delete it and build again", where=where
    )


def moved_on(where: str) -> ObjectConflict:
    """The error for an object that is not the version that a caller has seen."""
    return ObjectConflict("somebody else has changed it meanwhile", hint="read it again, then decide", where=where)


def compare_with_existing(store: ReadStore, name: str, data: bytes) -> bool:
    """What ``create`` answers when the name is taken: False if it holds ``data``, else ``ObjectConflict``."""
    where = f"{store.location}: {name}"
    try:
        existing = store.get(name, limit_bytes=len(data))
    except ObjectCorrupt:
        existing = None
    except ObjectMissing as error:
        raise StoreUnavailable("deleted while it was being written", hint="run again", where=where) from error
    if existing != data:
        raise ObjectConflict(
            f"holds other bytes than the {len(data)} to be written; the first ones stay",
            hint="compare the two: a name is written once",
            where=where,
        )
    return False
