"""Announcements and sweeps: few requests, and nobody trusts what may be deleted a moment later."""

from __future__ import annotations

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import FormatUnknown, ObjectCorrupt
from kernelforge.store.announcements import PREFIX, Announced, announce, read_announcement, sweep_since
from kernelforge.store.memory import MemoryStore
from kernelforge.store.sweeps import CLOCKS_DIFFER_S, LEASE, NEVER, Lease, read_lease

NOW = 1_000_000.0
LOCK, BLOB = Digest.of(b"lock"), Digest.of(b"blob")


def put_lease(store: MemoryStore, lease: Lease) -> None:
    store.delete(LEASE)
    store.create(LEASE, lease.to_bytes())


def sweeping(number: int = 1, round_: int = 1, ends_s: float | None = NOW + 60) -> Lease:
    return Lease(number, round_, "host-1", ends_s)


def test_what_is_announced_is_read_back() -> None:
    store = MemoryStore()
    made = announce(store, locks=[LOCK], blobs=[BLOB, BLOB])
    assert list(store.names(PREFIX)) == [made.name]
    assert read_announcement(store, made.name) == Announced(frozenset({LOCK}), frozenset({BLOB}))


@pytest.mark.parametrize("blobs", [0, 10_000])
def test_it_costs_two_requests_whatever_it_names(blobs: int) -> None:
    store = MemoryStore()
    made = announce(store, locks=[LOCK], blobs=[Digest.of(str(n).encode()) for n in range(blobs)], before=NEVER)
    assert not sweep_since(store, made)
    assert (store.traffic.puts, store.traffic.gets, store.traffic.requests) == (1, 1, 2)


def test_saying_it_again_makes_it_young_again() -> None:
    """The age of an announcement is that of its object, so an equal one must be another object."""
    store = MemoryStore()
    assert announce(store, locks=[LOCK], blobs=[]).name != announce(store, locks=[LOCK], blobs=[]).name


@pytest.mark.parametrize(
    ("before", "seen", "must_look_again"),
    [
        (None, NEVER, False),
        (NEVER, NEVER, False),
        (None, sweeping(round_=0), False),  # it reads announcements before it deletes anything
        (None, sweeping(round_=7, ends_s=None), False),  # over
        (None, sweeping(ends_s=NOW - CLOCKS_DIFFER_S), False),  # dead
        (NEVER, sweeping(round_=7, ends_s=None), True),
        (sweeping(round_=0), sweeping(round_=7, ends_s=None), True),
        (sweeping(round_=7, ends_s=None), sweeping(round_=7, ends_s=None), False),
        (sweeping(1, 7, None), sweeping(3, 7, None), True),
    ],
)
def test_whether_to_look_again(before: Lease | None, seen: Lease, must_look_again: bool) -> None:
    store = MemoryStore()
    put_lease(store, seen) if seen != NEVER else None
    made = announce(store, locks=[], blobs=[BLOB], before=before)
    assert sweep_since(store, made, now_s=lambda: NOW, pause=lambda _: pytest.fail("waited")) is must_look_again


@pytest.mark.parametrize(
    "next_", [sweeping(round_=2), sweeping(ends_s=None), sweeping(number=2, round_=0)], ids=["next", "over", "another"]
)
def test_who_announces_in_a_round_waits_for_its_end(next_: Lease) -> None:
    store = MemoryStore()
    put_lease(store, sweeping())
    made = announce(store, locks=[], blobs=[BLOB])
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            put_lease(store, next_)

    assert sweep_since(store, made, now_s=lambda: NOW, pause=pause)
    assert len(waited) == 3


def test_nobody_waits_longer_than_a_dead_sweep_might_have_taken() -> None:
    store = MemoryStore()
    put_lease(store, sweeping())
    made = announce(store, locks=[], blobs=[BLOB])
    clock = iter(range(int(NOW), int(NOW) + 10_000, 10))
    assert sweep_since(store, made, now_s=lambda: next(clock), pause=lambda _: None)
    assert next(clock) <= NOW + 60 + CLOCKS_DIFFER_S + 20


@pytest.mark.parametrize("ends_s", [None, 5, 5.5])
def test_a_lease_is_read_as_it_was_written(ends_s: float | None) -> None:
    store = MemoryStore()
    assert read_lease(store) == NEVER
    put_lease(store, Lease(3, 4, "host", ends_s))
    assert read_lease(store) == Lease(3, 4, "host", ends_s)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ObjectCorrupt),
        (b'{"schema":"kernelforge.lease/1"}', ObjectCorrupt),
        (b'{"schema":"kernelforge.lease/1","number":1,"round":true,"holder":"","ends_s":null}', ObjectCorrupt),
        (b'{"schema":"kernelforge.lease/1","number":1,"round":1,"holder":"","ends_s":"never"}', ObjectCorrupt),
        (b'{"schema":"kernelforge.lease/2"}', FormatUnknown),
        (b"x" * 5000, ObjectCorrupt),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_lease_that_cannot_be_read_is_an_error(data: bytes, error: type[Exception]) -> None:
    """Taking it for 'no sweep' would trust what is being deleted."""
    store = MemoryStore()
    store.create(LEASE, data)
    with pytest.raises(error):
        announce(store, locks=[], blobs=[])


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"schema":"kernelforge.announcement/1","locks":[],"blobs":["x"],"nonce":""}',
        b'{"schema":"kernelforge.announcement/1","locks":[]}',
    ],
)
def test_an_announcement_that_cannot_be_read_is_an_error(data: bytes) -> None:
    store = MemoryStore()
    store.create(f"{PREFIX}{BLOB.hex}.json", data)
    with pytest.raises(ObjectCorrupt):
        read_announcement(store, f"{PREFIX}{BLOB.hex}.json")
