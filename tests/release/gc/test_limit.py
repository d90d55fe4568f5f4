"""Case E4: a store with a limit stays under it, and what is pinned or served stays whatever the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelforge.release.gc.plan import EVICTED
from kernelforge.release.gc.retention import Retention
from kernelforge.release.pins import Pin, pin_lock
from kernelforge.store.layout import lock_name, ref_log_name
from kernelforge.store.memory import MemoryStore
from tests.aging_store import AgingStore
from tests.release.gc.world import ANY_SHARE, START, is_whole, make_release, point, publish, run_twice

MIB = 1 << 20
#: 20 MiB each, as everything but objects and packs is small.
RELEASES = [make_release("qwen", [f"{n}-{k}" for k in range(19)], size_bytes=MIB) for n in range(10)]
LIMITED = Retention(grace_s=0, allow_fraction=1.0, max_bytes=50 * MIB)


def grown_store() -> AgingStore:
    """200 MiB: ten releases of a channel, one a day, the second of which is pinned."""
    store = AgingStore(MemoryStore())
    for serial, release in enumerate(RELEASES, 1):
        publish(store, release)
        point(store, release, serial=serial)
        store.pass_time(days=1)
    pin_lock(store, Pin("audit", RELEASES[1].lock.digest, START))
    store.pass_time(days=1)
    return store


def size_of(store: AgingStore) -> int:
    return sum(found.size_bytes for found in store.listed())


def test_under_the_limit_with_the_pinned_and_the_served_release_kept() -> None:
    store = grown_store()
    assert size_of(store) > 200 * MIB
    found = run_twice(store, LIMITED)
    assert size_of(store) < LIMITED.max_bytes  # type: ignore[operator]
    assert is_whole(store, RELEASES[1])
    assert is_whole(store, RELEASES[9])
    assert {candidate.why for candidate in found.survey.due} == {EVICTED}


@pytest.mark.parametrize(("limit", "kept"), [(50, {1, 9}), (61, {1, 8, 9}), (90, {1, 7, 8, 9}), (1000, set(range(10)))])
def test_the_oldest_moves_give_way_first_and_no_more_than_needed(limit: int, kept: set[int]) -> None:
    store = grown_store()
    run_twice(store, replace(LIMITED, max_bytes=limit * MIB))
    names = set(store.names())
    assert {n for n, release in enumerate(RELEASES) if lock_name(release.lock.digest) in names} == kept
    assert {n for n in range(10) if ref_log_name("qwen", "prod", n + 1) in names} == kept
    assert all(RELEASES[n].needed <= names for n in kept)


def test_what_nothing_reaches_goes_before_any_release() -> None:
    store = grown_store()
    publish(store, make_release("llama", [f"x{k}" for k in range(100)], size_bytes=MIB))
    store.pass_time(days=2)
    run_twice(store, replace(LIMITED, max_bytes=210 * MIB))
    assert all(RELEASES[n].needed <= set(store.names()) for n in range(10))


def test_a_limit_that_cannot_be_kept_is_told() -> None:
    store = grown_store()
    found = run_twice(store, replace(LIMITED, max_bytes=30 * MIB))
    assert 10 * MIB < found.survey.plan.over_bytes < 12 * MIB
    assert is_whole(store, RELEASES[1])
    assert is_whole(store, RELEASES[9])


def test_what_was_served_today_is_not_evicted() -> None:
    """A rollback an hour after a release must still find what it goes back to."""
    store = grown_store()
    point(store, RELEASES[2], serial=11)
    point(store, RELEASES[9], serial=12)
    run_twice(store, LIMITED)
    assert is_whole(store, RELEASES[2])


def test_what_was_served_until_today_is_not_evicted() -> None:
    """However long ago it was promoted."""
    store = grown_store()
    point(store, RELEASES[2], serial=11)
    run_twice(store, LIMITED)
    assert is_whole(store, RELEASES[9])


def test_without_a_limit_nothing_is_evicted() -> None:
    store = grown_store()
    assert run_twice(store, ANY_SHARE).survey.plan.over_bytes == 0
    assert all(release.needed <= set(store.names()) for release in RELEASES)
