"""A collection as a whole: two runs, nothing that is needed or has changed, and sound after a crash at any step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import FormatUnknown, ObjectCorrupt, StoreError, StoreUnavailable, SweepRefused, SweepTooLarge
from kernelforge.release.gc import lease as lease_module
from kernelforge.release.gc import quarantine
from kernelforge.release.gc.collect import collect, survey
from kernelforge.release.gc.lease import hold_lease
from kernelforge.release.gc.retention import Retention
from kernelforge.store.announcements import announce, sweep_since
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import MARKER, blob_name, lock_name, signature_name
from kernelforge.store.memory import MemoryStore
from kernelforge.store.sweeps import LEASE, read_lease
from tests.aging_store import AgingStore, Died
from tests.release.gc.world import ANY_SHARE, KEY_ID, is_whole, make_release, point, publish, run, run_twice

KEPT = make_release("qwen", ["a", "b"])
GONE = make_release("qwen", ["b", "c", "d"])


def old_store(inner: PruneStore | None = None) -> AgingStore:
    """A store with a release that a channel points at, and one that nothing keeps."""
    store = AgingStore(inner or MemoryStore())
    publish(store, GONE)
    publish(store, KEPT)
    point(store, KEPT)
    store.pass_time(days=100)
    return store


@pytest.fixture
def store() -> AgingStore:
    return old_store()


def test_one_run_lists_and_a_later_one_deletes(store: AgingStore) -> None:
    first = run(store)
    assert (first.swept.objects, len(first.survey.due)) == (0, 0)
    assert {candidate.name for candidate in first.survey.new} >= GONE.needed - KEPT.needed
    assert GONE.needed <= set(store.names())
    store.pass_time(hours=23)
    second = run(store)
    assert (second.swept.objects, len(second.survey.new)) == (0, 0)
    assert len(second.survey.waiting) == len(first.survey.new)
    store.pass_time(hours=1.1)
    third = run(store)
    assert third.swept.objects == len(first.survey.new)
    assert third.swept.size_bytes == sum(candidate.size_bytes for candidate in first.survey.new)
    assert not (GONE.needed - KEPT.needed) & set(store.names())
    assert is_whole(store, KEPT)


def test_the_list_does_not_start_anew_when_a_run_comes_between(store: AgingStore) -> None:
    run(store)
    for _ in range(3):
        store.pass_time(hours=8.1)
        last = run(store)
    assert last.swept.objects


def test_nothing_is_left_of_it_at_the_end(store: AgingStore) -> None:
    run_twice(store)
    store.pass_time(days=2)
    assert run(store).swept.objects == 0
    assert quarantine.read_quarantine(store)[0].since_s == {}
    assert set(store.names("v1/gc/")) == {LEASE, quarantine.NAME}


def test_what_is_needed_again_by_then_is_kept(store: AgingStore) -> None:
    """A rollback between the two runs: the second one marks from scratch."""
    run(store)
    store.pass_time(days=2)
    point(store, GONE, serial=2)
    assert run(store).swept.objects == 0
    assert is_whole(store, GONE)


def test_what_was_written_again_by_then_waits_again(store: AgingStore) -> None:
    """Lost and built again in between: the name is on the list, but it is another object."""
    run(store)
    store.pass_time(days=2)
    name = blob_name(Digest.of(b"object c"))
    store.delete(name)
    store.create(name, b"object c")
    found = run(store)
    assert name in set(store.names())
    assert name not in {candidate.name for candidate in found.survey.due}
    store.pass_time(days=1.1)
    assert name in {candidate.name for candidate in run(store).survey.new}


def test_a_lockfile_that_has_to_wait_keeps_what_it_took_over_from_one_that_is_due() -> None:
    """Between two runs a build used an object that was on the list, and nobody promoted what it built."""
    store = AgingStore(MemoryStore())
    publish(store, GONE)
    store.pass_time(days=2)
    run(store)
    heir = make_release("heir", [*"cde"])
    assert set(GONE.contents) & set(heir.contents)
    publish(store, heir)
    store.pass_time(days=2)
    run(store)
    assert not set(GONE.needed) - heir.needed & set(store.names())
    assert is_whole(store, heir)
    store.pass_time(days=2)
    run(store)
    assert not (GONE.needed | heir.needed) & set(store.names())


def test_a_lockfile_that_nothing_needs_and_nobody_can_read_stops_nothing(store: AgingStore) -> None:
    store.delete(lock_name(GONE.lock.digest))
    store.create(lock_name(GONE.lock.digest), b"{")
    store.pass_time(days=2)
    run_twice(store)
    assert not (GONE.needed - KEPT.needed) & set(store.names())


def test_what_changes_while_it_is_being_deleted_is_spared() -> None:
    """Between the look and the deletion somebody signs the lockfile anew."""
    name = signature_name(GONE.lock.digest, KEY_ID)

    class Busy(AgingStore):
        def delete(self, name_: str, *, version: str | None = None) -> None:
            if name_ == name:
                self.replace(name, b"new", version=self.get_versioned(name, limit_bytes=100)[1])
            super().delete(name_, version=version)

    store = Busy(old_store().inner)
    store.pass_time(days=200)
    done = run_twice(store)
    assert done.swept.spared == 1
    assert store.get(name, limit_bytes=100) == b"new"


def test_too_much_at_once_is_refused_before_anything_happens(store: AgingStore) -> None:
    """A lost ref must not cost the store."""
    before = set(store.names())
    with pytest.raises(SweepTooLarge, match=r"\d\d% of the store is newly unreachable, allowed are 20%") as refused:
        run(store, Retention())
    assert refused.value.exit_code == 1
    run(store, replace(ANY_SHARE, grace_s=0))
    with pytest.raises(SweepTooLarge, match="would be deleted"):
        run(store, Retention(grace_s=0))
    assert before <= set(store.names())


def test_the_next_run_can_start_at_once_after_a_refusal(store: AgingStore) -> None:
    with pytest.raises(SweepTooLarge):
        run(store, Retention())
    run(store)


def test_a_survey_says_what_a_run_would_do_and_writes_nothing(store: AgingStore) -> None:
    run(store)
    store.pass_time(days=2)
    before = store.traffic
    found = survey(store, ANY_SHARE, now_s=store.now_s())
    assert (store.traffic.puts, store.traffic.deletes) == (before.puts, before.deletes)
    assert len(found.due) == run(store).swept.objects


def test_a_store_of_a_later_format_is_left_alone() -> None:
    store = AgingStore(MemoryStore())
    store.create(MARKER, b'{"schema": "kernelforge.store/2"}')
    with pytest.raises(FormatUnknown):
        run(store)
    assert list(store.names()) == [MARKER]


def test_a_damaged_list_is_told_with_what_to_do(store: AgingStore) -> None:
    store.create(quarantine.NAME, b'{"schema": "kernelforge.gc-quarantine/1", "batches": [1]}')
    with pytest.raises(ObjectCorrupt) as error:
        run(store)
    assert "delete it" in error.value.hint


def test_an_empty_store_is_fine() -> None:
    assert run_twice(AgingStore(MemoryStore())).swept.objects == 0


def requests_of_a_run() -> int:
    store = old_store()
    run(store)
    store.pass_time(days=2)
    before = store.requests
    run(store)
    return store.requests - before


@pytest.mark.parametrize("is_done_first", [False, True], ids=["before", "after"])
def test_a_run_that_dies_at_any_request_leaves_a_whole_store_and_the_next_one_finishes(is_done_first: bool) -> None:
    """The reverse order of publishing: at no time is there a lockfile without what it names."""
    for request in range(1, requests_of_a_run() + 1):
        store = old_store()
        run(store)
        store.pass_time(days=2)
        store.die_at(request, is_done_first=is_done_first)
        with pytest.raises(Died):
            run(store)
        store.revive()
        names = set(store.names())
        assert is_whole(store, KEPT)
        assert lock_name(GONE.lock.digest) not in names or is_whole(store, GONE)
        store.pass_time(seconds=lease_module.ROUND_S + lease_module.LAST_CALL_S + 61)
        run(store)
        assert is_whole(store, KEPT)
        assert not (GONE.needed - KEPT.needed) & set(store.names()), request


def test_one_sweep_at_a_time(store: AgingStore) -> None:
    with hold_lease(store, now_s=store.now_s):
        with pytest.raises(SweepRefused, match="another garbage collection is at work") as refused:
            run(store)
        assert "can start at 20" in refused.value.hint
    run(store)


def test_a_sweep_that_died_holds_up_the_next_one_for_minutes_only(store: AgingStore) -> None:
    store.die_at(4, is_done_first=True)
    with pytest.raises(Died):
        run(store)
    store.revive()
    with pytest.raises(SweepRefused):
        run(store)
    store.pass_time(seconds=151)
    run(store)
    assert read_lease(store).number == 2


def test_a_sweep_that_was_stopped_for_an_hour_deletes_nothing_more(store: AgingStore) -> None:
    """Its lease ran out in the middle of a round, and another one has begun: publishers no longer heed the first."""
    run(store)
    store.pass_time(days=2)
    others: list[int] = []

    class Stopped(AgingStore):
        def delete(self, name: str, *, version: str | None = None) -> None:
            if not others:
                others.append(1)
                self.pass_time(hours=1)
                with hold_lease(self, now_s=self.now_s):
                    pass
            self.asked = [*getattr(self, "asked", []), name]
            super().delete(name, version=version)

    stopped = Stopped(store.inner)
    stopped.passed_s, stopped._written_at = store.passed_s, store._written_at
    with pytest.raises(SweepRefused, match="has taken over"):
        run(stopped)
    # Those that other threads had begun before are under way; a round has many more.
    assert len(stopped.asked) <= 32


def test_a_lease_that_ran_out_unnoticed_is_renewed_and_the_sweep_goes_on() -> None:
    """A slow store: a round ends when its time is over, the next one hears the announcements and takes the rest."""

    class Slow(AgingStore):
        def delete(self, name: str, *, version: str | None = None) -> None:
            self.pass_time(seconds=40)
            super().delete(name, version=version)

    store = Slow(old_store().inner)
    store.pass_time(days=200)
    run_twice(store)
    assert not (GONE.needed - KEPT.needed) & set(store.names())
    assert read_lease(store).round > 4
    assert is_whole(store, KEPT)


@pytest.mark.parametrize("error", [StoreUnavailable("no", hint="wait"), KeyboardInterrupt()], ids=repr)
def test_after_trouble_in_the_middle_the_lease_runs_out_by_itself(error: BaseException) -> None:
    """A deletion may still be on its way: publishers that saw no sweep would trust blobs that are about to vanish."""

    class Failing(AgingStore):
        def delete(self, name: str, *, version: str | None = None) -> None:
            raise error

    store = Failing(old_store().inner)
    store.pass_time(days=200)
    run(store)
    store.pass_time(days=2)
    with pytest.raises(type(error)):
        run(store)
    assert read_lease(store).may_delete(store.now_s())


def test_announced_in_the_middle_of_a_sweep(store: AgingStore) -> None:
    """The publisher waits for the next round; then everything that it named and found stays."""
    run(store)
    store.pass_time(days=2)
    answers: list[bool] = []

    class Publishing(AgingStore):
        def delete(self, name: str, *, version: str | None = None) -> None:
            if name.startswith("v1/locks/") and not answers:
                made = announce(self, locks=[GONE.lock.digest], blobs=[])
                answers.append(made.after.may_delete(self.now_s()))
            super().delete(name, version=version)

    publishing = Publishing(store.inner)
    publishing.passed_s, publishing._written_at = store.passed_s, store._written_at
    done = run(publishing)
    assert answers == [True]
    assert done.swept.spared
    assert GONE.needed <= set(store.names())


def test_a_publisher_that_looked_before_it_announced_learns_of_a_sweep_between(store: AgingStore) -> None:
    before = read_lease(store)
    run(store)
    late = announce(store, locks=[], blobs=list(GONE.contents), before=before)
    assert sweep_since(store, late, now_s=store.now_s)
    in_time = announce(store, locks=[], blobs=list(GONE.contents), before=read_lease(store))
    assert not sweep_since(store, in_time, now_s=store.now_s)


def test_a_sweep_needs_no_more_than_its_own_clock(store: AgingStore) -> None:
    """Ages are by the store's clock: a machine whose clock is a year off deletes neither more nor less."""
    publish(store, make_release("new", ["y"]))
    for offset_s in (-365 * 86400, 365 * 86400):
        found = collect(store, ANY_SHARE, now_s=lambda offset_s=offset_s: store.now_s() + offset_s)
        assert not make_release("new", ["y"]).needed & {candidate.name for candidate in found.survey.plan.candidates}
    with pytest.raises(StoreError):
        store.get("v1/none", limit_bytes=1)
