"""What every store must do. A backend's test is a subclass that says how to make one."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing, UsageError
from kernelforge.store import ActionCache, BuildRecord, PruneStore, PutOutcome, check_blob, get_blob, put_blob
from kernelforge.store.interface import Traffic
from kernelforge.store.layout import blob_name

_T = TypeVar("_T")

CONTENT = bytes(range(256)) * 300
BAD_NAMES = ["", "/etc/passwd", "a//b", "a/", "../a", "a/../b", "a/./b", ".a", "a/.b", "a b", "a\\b", "a\n", "é", "-a"]


class StoreConformance:
    """Subclasses define the fixture ``store``, an empty store."""

    @pytest.mark.parametrize("data", [b"", b"x", CONTENT], ids=["empty", "one byte", "75 KiB"])
    def test_what_was_created_is_read_back(self, store: PruneStore, data: bytes) -> None:
        assert store.create("v1/a/b", data) is True
        assert store.get("v1/a/b", limit_bytes=len(data)) == data
        assert store.size("v1/a/b") == len(data)

    def test_missing_objects_are_missing_and_nothing_else(self, store: PruneStore) -> None:
        store.create("v1/a/b", b"x")
        for name in ("v1/a/c", "v2", "v1/a/b.json"):
            with pytest.raises(ObjectMissing):
                store.get(name, limit_bytes=10)
            with pytest.raises(ObjectMissing):
                store.size(name)

    def test_same_bytes_again_are_no_conflict(self, store: PruneStore) -> None:
        assert store.create("a", b"first") is True
        assert store.create("a", b"first") is False

    @pytest.mark.parametrize("other", [b"", b"f", b"First", b"first and more"])
    def test_first_bytes_stay(self, store: PruneStore, other: bytes) -> None:
        store.create("a", b"first")
        with pytest.raises(ObjectConflict):
            store.create("a", other)
        assert store.get("a", limit_bytes=100) == b"first"

    def test_read_is_bounded(self, store: PruneStore) -> None:
        """An object that somebody made larger must not fill the reader's memory."""
        store.create("a", b"12345")
        with pytest.raises(ObjectCorrupt):
            store.get("a", limit_bytes=4)
        assert store.get("a", limit_bytes=5) == b"12345"

    def test_names(self, store: PruneStore) -> None:
        assert list(store.names()) == []
        for name in ("kf.json", "v1/a/b", "v1/a/c", "v1/ab", "v2/a"):
            store.create(name, b"x")
        assert sorted(store.names()) == ["kf.json", "v1/a/b", "v1/a/c", "v1/ab", "v2/a"]
        assert sorted(store.names("v1/a/")) == ["v1/a/b", "v1/a/c"]
        assert sorted(store.names("v1/a")) == ["v1/a/b", "v1/a/c", "v1/ab"]
        assert list(store.names("v3/")) == []

    def test_deleted_names_are_free_again(self, store: PruneStore) -> None:
        store.create("a/b", b"old")
        store.delete("a/b")
        store.delete("a/b")
        store.delete("never/there")
        with pytest.raises(ObjectMissing):
            store.get("a/b", limit_bytes=10)
        assert store.create("a/b", b"new") is True

    @pytest.mark.parametrize("name", [*BAD_NAMES, "a" * 600])
    def test_names_that_could_lead_elsewhere_are_refused(self, store: PruneStore, name: str) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.get(name, limit_bytes=1),
            lambda: store.size(name),
            lambda: store.create(name, b""),
            lambda: store.replace(name, b"", version="x"),
            lambda: store.delete(name),
        ]
        for call in calls:
            with pytest.raises(UsageError):
                call()

    def test_of_writers_at_once_one_wins(self, store: PruneStore) -> None:
        """Check-then-write would let two writers both believe that theirs is the object."""
        offers = [bytes([number]) * 1000 for number in range(8)]
        outcomes = at_once([partial(try_create, store, "a/b", offer) for offer in offers])
        assert sorted(outcomes) == ["conflict"] * 7 + ["created"]
        assert store.get("a/b", limit_bytes=1000) == offers[outcomes.index("created")]

    def test_of_equal_writers_at_once_one_wrote(self, store: PruneStore) -> None:
        outcomes = at_once([partial(try_create, store, "a/b", CONTENT)] * 8)
        assert sorted(outcomes) == ["created"] + ["there already"] * 7

    def test_readers_never_see_part_of_an_object(self, store: PruneStore) -> None:
        is_written = threading.Event()
        large = CONTENT * 10

        def read() -> set[int | None]:
            sizes: set[int | None] = set()
            while not is_written.is_set():
                sizes.add(_size_read(store, "a/b", len(large)))
            return sizes

        def write() -> set[int | None]:
            store.create("a/b", large)
            is_written.set()
            return set()

        assert set().union(*at_once([read, read, write])) <= {None, len(large)}

    def test_listing_says_size_time_and_version(self, store: PruneStore) -> None:
        store.create("v1/a", b"12345")
        store.create("v1/b", b"")
        found = {entry.name: entry for entry in store.listed("v1/")}
        assert {name: entry.size_bytes for name, entry in found.items()} == {"v1/a": 5, "v1/b": 0}
        assert all(abs(entry.modified_s - time.time()) < 600 for entry in found.values())
        assert found["v1/a"].version == store.get_versioned("v1/a", limit_bytes=5)[1]

    def test_replace_moves_what_the_caller_has_seen(self, store: PruneStore) -> None:
        store.create("a", b"first")
        _, version = store.get_versioned("a", limit_bytes=5)
        store.replace("a", b"second", version=version)
        data, after = store.get_versioned("a", limit_bytes=6)
        assert data == b"second"
        assert after != version
        with pytest.raises(ObjectConflict):
            store.replace("a", b"third", version=version)
        assert store.get("a", limit_bytes=6) == b"second"

    def test_nothing_is_replaced_where_nothing_is(self, store: PruneStore) -> None:
        store.create("b", b"x")
        _, version = store.get_versioned("b", limit_bytes=1)
        for name in ("a", "never/there"):
            with pytest.raises(ObjectConflict):
                store.replace(name, b"second", version=version)
        assert list(store.names()) == ["b"]

    def test_of_replacers_at_once_one_wins(self, store: PruneStore) -> None:
        store.create("a", b"first")
        _, version = store.get_versioned("a", limit_bytes=5)
        offers = [bytes([number]) * 1000 for number in range(8)]
        outcomes = at_once([partial(_try_replace, store, "a", offer, version) for offer in offers])
        assert sorted(outcomes) == [False] * 7 + [True]
        assert store.get("a", limit_bytes=1000) == offers[outcomes.index(True)]

    def test_delete_with_a_version_spares_what_has_changed(self, store: PruneStore) -> None:
        store.create("a", b"first")
        _, version = store.get_versioned("a", limit_bytes=5)
        store.replace("a", b"second", version=version)
        with pytest.raises(ObjectConflict):
            store.delete("a", version=version)
        store.delete("a", version=store.get_versioned("a", limit_bytes=6)[1])
        assert list(store.names()) == []
        store.delete("a", version=version)
        store.delete("never/there", version=version)

    def test_traffic(self, store: PruneStore) -> None:
        before = store.traffic
        assert before == Traffic()
        store.create("a", b"12345")
        store.get("a", limit_bytes=5)
        store.size("a")
        assert list(store.names()) == ["a"]
        store.delete("a")
        assert store.traffic == Traffic(gets=1, heads=1, puts=1, lists=1, deletes=1, bytes_read=5, bytes_written=5)
        assert store.traffic.requests == 5
        assert before == Traffic(), "a reading is a value, not a view"

    def test_blobs_and_records(self, store: PruneStore) -> None:
        blob = put_blob(store, CONTENT)
        assert blob.encoding == "zstd"
        assert put_blob(store, CONTENT) == blob
        check_blob(store, blob)
        assert get_blob(store, blob) == CONTENT
        cache = ActionCache(store, "dev")
        record = BuildRecord(Digest.of(b"key"), {"object": blob}, {"registers": 40}, 0.5, {"kernel": "m:K"})
        with pytest.raises(ObjectMissing):
            cache.get(record.key_digest)
        assert cache.put(record) is PutOutcome.CREATED
        assert cache.get(record.key_digest) == record

    @pytest.mark.parametrize("damage", ["flipped", "empty", "one byte", "half", "longer"])
    def test_damaged_blob_is_never_read_and_is_repaired_by_the_next_write(self, store: PruneStore, damage: str) -> None:
        """A damaged entry must neither be loaded nor block its own replacement for ever."""
        blob = put_blob(store, CONTENT)
        replace_bytes(store, blob, damage)
        with pytest.raises(ObjectCorrupt):
            get_blob(store, blob)
        assert put_blob(store, CONTENT) == blob
        assert get_blob(store, blob) == CONTENT


def replace_bytes(store: PruneStore, blob: Descriptor, damage: str) -> None:
    """Put damaged bytes where the blob was."""
    name = blob_name(blob.stored_digest)
    stored = store.get(name, limit_bytes=blob.stored_size_bytes)
    flipped = bytearray(stored)
    flipped[len(flipped) // 2] ^= 1
    damaged = {
        "flipped": bytes(flipped),
        "empty": b"",
        "one byte": stored[:1],
        "half": stored[: len(stored) // 2],
        "longer": stored + b"x",
    }
    store.delete(name)
    store.create(name, damaged[damage])


def at_once(calls: list[Callable[[], _T]]) -> list[_T]:
    """Results of ``calls``, started together, each in a thread of its own."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], _T]) -> _T:
        barrier.wait()
        return call()

    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def _size_read(store: PruneStore, name: str, limit_bytes: int) -> int | None:
    try:
        return len(store.get(name, limit_bytes=limit_bytes))
    except ObjectMissing:
        return None


def try_create(store: PruneStore, name: str, data: bytes) -> str:
    try:
        return "created" if store.create(name, data) else "there already"
    except ObjectConflict:
        return "conflict"


def _try_replace(store: PruneStore, name: str, data: bytes, version: str) -> bool:
    try:
        store.replace(name, data, version=version)
    except ObjectConflict:
        return False
    return True
