"""A publisher at every moment of a sweep, and a sweep at every moment of a publisher: it fails, or all is there."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kernelforge.errors import ObjectMissing, UntrustedLockfile
from kernelforge.release.gc.collect import collect
from kernelforge.release.gc.retention import Retention
from kernelforge.release.pins import Pin, pin_lock
from kernelforge.release.publish import publish_lockfile
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import pin_name, ref_name
from kernelforge.store.memory import MemoryStore
from tests.aging_store import AgingStore
from tests.meanwhile import Meanwhile, Waiter
from tests.release.channel_world import Team, sign
from tests.release.gc.world import START, build, is_whole, make_release, publish, run, run_twice

OLD = make_release("qwen", ["a", "b"])
#: What a publisher may be told: swept is the lockfile, what it names, or its signature.
REFUSALS = (ObjectMissing, UntrustedLockfile)
SHORT = Retention(history_s=0, history_moves=1, grace_s=0, allow_fraction=1.0)


def promote(store: PruneStore) -> None:
    """Point a channel at a lockfile of long ago."""
    Team(store, deployment="qwen").promote(OLD.lock)


def build_and_promote(store: PruneStore) -> None:
    """A build whose objects are all there already, though nothing keeps them."""
    build(store, OLD)
    publish_lockfile(OLD.lock, store, facts=None, domain="release")
    sign(store, OLD.lock)
    promote(store)


def pin(store: PruneStore) -> None:
    pin_lock(store, Pin("audit", OLD.lock.digest, START))


def about_to_be_swept() -> AgingStore:
    """An old release that nothing keeps, and that the next run deletes."""
    store = AgingStore(MemoryStore())
    publish(store, OLD)
    sign(store, OLD.lock)
    store.pass_time(days=100)
    run(store, SHORT)
    store.pass_time(hours=1)
    return store


def sweep_now(store: AgingStore) -> None:
    run(store, SHORT)


def check(store: AgingStore, error: BaseException | None) -> None:
    """Whoever was told that it worked has everything; and so has everybody else who sees the ref or pin."""
    assert error is None or isinstance(error, REFUSALS), error
    names = set(store.names())
    if error is None or ref_name("qwen", "prod") in names or pin_name("audit") in names:
        assert is_whole(store, OLD)
    run_twice(store, SHORT)
    if error is None:
        assert is_whole(store, OLD)


@pytest.mark.parametrize("work", [promote, build_and_promote, pin])
def test_a_publisher_at_every_moment_of_a_sweep(
    work: Callable[[PruneStore], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Meanwhile(about_to_be_swept(), 0, lambda: None)
    collect(counting, SHORT, now_s=time.time)
    outcomes = set()
    for at in range(1, counting.requests + 1):
        store = about_to_be_swept()
        waiter = Waiter(store, monkeypatch)
        ends: list[Callable[[], BaseException | None]] = []
        sweeping = Meanwhile(store, at, lambda: ends.append(waiter.start(lambda: work(store))))  # noqa: B023
        collect(sweeping, SHORT, now_s=store.now_s)
        error = ends[0]()
        outcomes.add(error is None)
        check(store, error)
    assert True in outcomes


@pytest.mark.parametrize("work", [promote, build_and_promote, pin])
def test_a_sweep_at_every_moment_of_a_publisher(
    work: Callable[[PruneStore], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Meanwhile(about_to_be_swept(), 0, lambda: None)
    work(counting)
    for at in range(1, counting.requests + 1):
        store = about_to_be_swept()
        Waiter(store, monkeypatch)
        error: BaseException | None = None
        try:
            work(Meanwhile(store, at, lambda: sweep_now(store)))  # noqa: B023
        except REFUSALS as missing:
            error = missing
        check(store, error)
