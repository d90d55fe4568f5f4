"""What keeps a release: each root alone is enough, for as long as it should be, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import FormatUnknown, StoreError, StoreUnavailable, SweepRefused
from kernelforge.release.gc.retention import Retention
from kernelforge.release.pins import Pin, pin_lock
from kernelforge.store.announcements import announce
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import about_name, lock_name, pin_name, ref_log_name, ref_name
from kernelforge.store.memory import MemoryStore
from tests.aging_store import AgingStore
from tests.failing_store import FailingStore
from tests.release.gc.world import ANY_SHARE, START, Release, make_release, point, publish, run, run_twice

OURS = make_release("qwen", ["a", "b"])
NEXT = make_release("qwen", ["b", "c"])


@pytest.fixture
def store() -> AgingStore:
    """A store with one release of long ago."""
    aging = AgingStore(MemoryStore())
    publish(aging, OURS)
    aging.pass_time(days=100)
    return aging


def _pin(store: PruneStore) -> None:
    pin_lock(store, Pin("audit", OURS.lock.digest, START))


def _point(store: PruneStore) -> None:
    point(store, OURS)


def _point_and_move_on(store: PruneStore) -> None:
    point(store, OURS)
    publish(store, NEXT)
    point(store, NEXT, serial=2)


def _announce_lock(store: PruneStore) -> None:
    announce(store, locks=[OURS.lock.digest], blobs=[])


def _sign_again(store: PruneStore) -> None:
    store.create(about_name(OURS.lock.digest, "facts", Digest.of(b"{}")), b"{}")


def _nothing(store: PruneStore) -> None:
    pass


@pytest.mark.parametrize(
    ("keep", "days_kept"),
    [
        (_point, 1000),
        (_pin, 1000),
        (_point_and_move_on, 1000),
        (_announce_lock, 0.9),
        (_sign_again, 0.9),
        (_nothing, 0),
    ],
)
def test_a_release_stays_as_long_as_something_keeps_it(
    store: AgingStore, keep: Callable[[PruneStore], None], days_kept: float
) -> None:
    keep(store)
    store.pass_time(days=days_kept)
    run_twice(store, replace(ANY_SHARE, grace_s=0))
    assert OURS.needed <= set(store.names()) if days_kept else not OURS.needed & set(store.names())


@pytest.mark.parametrize("keep", [_announce_lock, _sign_again])
def test_what_was_kept_for_a_day_goes_afterwards(store: AgingStore, keep: Callable[[PruneStore], None]) -> None:
    keep(store)
    store.pass_time(days=1.1)
    run_twice(store)
    assert not OURS.needed & set(store.names())
    assert not list(store.names("v1/gc/announced/"))


@pytest.mark.parametrize(("moves", "days", "is_kept"), [(9, 1000, True), (10, 1000, False), (10, 29, True)])
def test_old_moves_keep_their_lockfiles_for_30_days_or_while_they_are_among_the_last_ten(
    moves: int, days: float, is_kept: bool
) -> None:
    store = AgingStore(MemoryStore())
    publish(store, OURS)
    point(store, OURS)
    publish(store, NEXT)
    for serial in range(2, 2 + moves):
        point(store, NEXT, serial=serial)
    store.pass_time(days=days)
    run_twice(store, replace(ANY_SHARE, grace_s=0))
    assert (OURS.needed <= set(store.names())) is is_kept
    assert (ref_log_name("qwen", "prod", 1) in set(store.names())) is is_kept
    assert NEXT.needed <= set(store.names())


def test_announced_blobs_stay_without_a_lockfile(store: AgingStore) -> None:
    digest = next(iter(OURS.contents))
    announce(store, locks=[], blobs=[digest])
    run_twice(store, replace(ANY_SHARE, grace_s=0))
    assert [name for name in store.names("v1/blobs/") if name in OURS.needed] == [
        name for name in store.names("v1/blobs/") if name.endswith(digest.hex)
    ]
    assert len(list(store.names("v1/blobs/"))) == 1


GARBAGE = b"\x00 not a document"


@pytest.mark.parametrize(
    "name",
    [
        ref_name("qwen", "canary"),
        ref_log_name("qwen", "canary", 1),
        pin_name("audit"),
        "v1/gc/announced/" + "ab" * 32 + ".json",
        lock_name(Digest.of(b"another lockfile")),
        "v1/refs/stray.json",
        "v1/pins/stray",
    ],
)
@pytest.mark.parametrize("data", [GARBAGE, b"", b"{}", b'{"schema": "kernelforge.pin/9"}'], ids=repr)
def test_a_root_that_cannot_be_read_ends_it_before_anything_is_deleted(
    store: AgingStore, name: str, data: bytes
) -> None:
    run(store)
    store.pass_time(days=2)
    store.create(name, data)
    before = set(store.names())
    with pytest.raises(SweepRefused) as refused:
        run(store)
    assert name in refused.value.where
    assert set(store.names()) == before


@pytest.mark.parametrize("keep", [_point, _pin])
def test_a_ref_or_pin_without_its_lockfile_is_damage(store: AgingStore, keep: Callable[[PruneStore], None]) -> None:
    keep(store)
    store.delete(lock_name(OURS.lock.digest))
    with pytest.raises(SweepRefused, match="not in the store"):
        run(store)


@pytest.mark.parametrize("error", [StoreUnavailable, FormatUnknown])
@pytest.mark.parametrize("prefix", ["v1/refs/", "v1/refs-log/", "v1/pins/", "v1/locks/", "v1/release/actions/"])
def test_a_store_that_does_not_answer_about_a_root_ends_it(error: type[StoreError], prefix: str) -> None:
    """Taking 'no answer' for 'nothing there' would delete everything."""
    failing = FailingStore(error("try later", hint="wait"), "v9/")
    store = AgingStore(failing)
    publish(store, OURS)
    point(store, OURS)
    _pin(store)
    store.pass_time(days=100)
    failing._prefix = prefix
    before = set(store.names())
    with pytest.raises(StoreError):
        run(store)
    assert before <= set(store.names())


def test_history_is_counted_by_channel() -> None:
    store = AgingStore(MemoryStore())
    others: list[Release] = [make_release(f"m{number}", [f"x{number}"]) for number in range(12)]
    for release in others:
        publish(store, release)
        point(store, release)
    store.pass_time(days=400)
    run_twice(store, Retention(allow_fraction=0.0))
    assert all(release.needed <= set(store.names()) for release in others)


@pytest.mark.parametrize(("days", "is_kept"), [(29, True), (31, False)])
def test_history_begins_when_a_lockfile_is_no_longer_served(days: float, is_kept: bool) -> None:
    """Pods that took it an hour before the next move have as long as those that took it on the first day."""
    store = AgingStore(MemoryStore())
    publish(store, OURS)
    publish(store, NEXT)
    point(store, OURS)
    store.pass_time(days=100)
    point(store, NEXT, serial=2)
    store.pass_time(days=days)
    run_twice(store, replace(ANY_SHARE, grace_s=0, history_moves=0))
    assert (OURS.needed <= set(store.names())) is is_kept
