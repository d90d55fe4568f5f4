"""What is left over, and why: every kind of object has its rule, and what nobody knows is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelforge.digest import Digest
from kernelforge.release.gc.plan import DELETED_IN_ORDER, Plan, make_plan
from kernelforge.release.gc.retention import Retention
from kernelforge.store.actions import RECORD_LIMIT_BYTES, ActionCache
from kernelforge.store.announcements import announce
from kernelforge.store.layout import action_name, blob_name, conflict_name, lock_name
from kernelforge.store.memory import MemoryStore
from kernelforge.store.named import Kind
from tests.aging_store import AgingStore
from tests.release.gc.world import ANY_SHARE, build, make_release, point, publish

OURS = make_release("qwen", ["a", "b"])
THEIRS = make_release("llama", ["b", "c", "d"])


def plan_of(store: AgingStore, retention: Retention = ANY_SHARE) -> Plan:
    return make_plan(store, retention, now_s=store.now_s())


def reasons(plan: Plan) -> dict[str, str]:
    return {candidate.name: candidate.why for candidate in plan.candidates}


@pytest.fixture
def store() -> AgingStore:
    """Two releases of long ago, one of which a channel points at."""
    aging = AgingStore(MemoryStore())
    publish(aging, OURS)
    publish(aging, THEIRS)
    point(aging, OURS)
    aging.pass_time(days=100)
    return aging


def test_what_only_the_other_release_needs_is_left_over(store: AgingStore) -> None:
    """Blobs and records that both need stay, cubins included, which only build records name."""
    left_over = {name for name in reasons(plan_of(store)) if not name.endswith(".dsse.json")}
    assert left_over == THEIRS.needed - OURS.needed


def test_a_plan_changes_nothing(store: AgingStore) -> None:
    before = store.traffic
    plan_of(store)
    assert (store.traffic.puts, store.traffic.deletes) == (before.puts, before.deletes)


def test_every_object_has_its_reason_and_they_are_in_the_order_of_deletion(store: AgingStore) -> None:
    announce(store, locks=[], blobs=[])
    store.pass_time(days=2)
    plan = plan_of(store)
    assert {candidate.kind: candidate.why for candidate in plan.candidates} == {
        Kind.ANNOUNCEMENT: "older than a day",
        Kind.SIGNATURE: "its lockfile is not kept",
        Kind.LOCK: "no ref, pin or recent move names it",
        Kind.RECORD: "no lockfile that is kept names its key",
        Kind.BLOB: "no lockfile that is kept names it",
    }
    positions = [DELETED_IN_ORDER.index(candidate.kind) for candidate in plan.candidates]
    assert positions == sorted(positions)
    assert plan.objects == len(list(store.names()))
    assert plan.size_bytes == sum(found.size_bytes for found in store.listed())


def test_an_unfinished_build_is_left_over_only_after_a_day() -> None:
    """No lockfile names what a build with one failing kernel left behind; the next build still finds it."""
    store = AgingStore(MemoryStore())
    build(store, OURS)
    store.pass_time(hours=23.9)
    assert not plan_of(store).candidates
    store.pass_time(hours=0.2)
    assert set(reasons(plan_of(store))) == OURS.needed - {lock_name(OURS.lock.digest)}


def test_a_young_record_keeps_old_blobs() -> None:
    """A build that compiles to bytes that are there already leaves a new record and old blobs."""
    store = AgingStore(MemoryStore())
    for digest, data in OURS.contents.items():
        store.create(blob_name(digest), data)
    store.pass_time(days=100)
    build(store, OURS)
    assert not plan_of(store).candidates


@pytest.mark.parametrize("domain", ["dev", "release", "team-7"])
def test_records_of_every_domain_go_by_their_keys(domain: str) -> None:
    store = AgingStore(MemoryStore())
    build(store, OURS, domain=domain)
    publish(store, OURS)
    point(store, OURS)
    build(store, THEIRS, domain=domain)
    store.pass_time(days=100)
    left_over = set(reasons(plan_of(store)))
    ours = {action_name(domain, record.key_digest) for record in OURS.records}
    theirs = {action_name(domain, record.key_digest) for record in THEIRS.records}
    assert left_over & (ours | theirs) == theirs - ours


@pytest.mark.parametrize(("days", "is_kept"), [(89, True), (91, False)])
def test_conflicts_and_damage_are_kept_for_90_days_with_their_bytes(days: float, is_kept: bool) -> None:
    store = AgingStore(MemoryStore())
    publish(store, OURS)
    point(store, OURS)
    [other, *_] = make_release("x", ["z"]).records
    loser = replace(OURS.records[0], outputs=other.outputs)
    for blob, data in make_release("x", ["z"]).contents.items():
        store.create(blob_name(blob), data)
    ActionCache(store, "release").put(loser)
    evidence = [conflict_name("release", loser.key_digest, loser.outputs_digest)]
    evidence += [blob_name(blob.stored_digest) for blob in loser.outputs.values()]
    evidence += ["v1/quarantine/blobs/" + "ab" * 32]
    store.create(evidence[-1], b"damaged")
    store.create("v1/quarantine/index.json", b"{}")
    assert set(evidence) <= set(store.names())
    store.pass_time(days=days)
    left_over = set(reasons(plan_of(store)))
    assert left_over & set(evidence) == (set() if is_kept else set(evidence))
    assert "v1/quarantine/index.json" not in left_over


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "v2/blobs/sha256/ab/" + "ab" * 32,
        "v1/blobs/sha256/cd/" + "ab" * 32,
        "v1/blobs/sha512/ab/" + "ab" * 64,
        "v1/gc/announced/later.json",
        "v1/locks/sha256/" + "ab" * 32 + ".extra/x.json",
        "v1/refs-log/qwen/prod/1.json",
        "v1/pins-of-ours/x.json",
    ],
)
def test_a_name_of_unknown_shape_is_told_and_left_alone(store: AgingStore, name: str) -> None:
    store.create(name, b"somebody's")
    store.pass_time(days=1000)
    plan = plan_of(store)
    assert name not in reasons(plan)
    assert (plan.unknown_objects, plan.unknown) == (1, (name,))


@pytest.mark.parametrize("damage", [b"", b"{}", b"x" * (RECORD_LIMIT_BYTES + 1)], ids=len)
def test_a_damaged_record_keeps_nothing_and_stops_nothing(store: AgingStore, damage: bytes) -> None:
    """It answers nobody, and the next build replaces it; the objects are kept by the lockfile."""
    name = action_name("release", OURS.records[0].key_digest)
    store.delete(name)
    store.create(name, damage)
    store.pass_time(days=2)
    cubin = OURS.records[0].outputs["cubin"].stored_digest
    left_over = set(reasons(plan_of(store)))
    assert blob_name(cubin) in left_over
    assert blob_name(OURS.records[0].outputs["object"].stored_digest) not in left_over
    assert name not in left_over


def test_the_marks_are_made_before_the_store_is_looked_through(store: AgingStore) -> None:
    """So what is published meanwhile is young when it is seen, and never judged by marks that are older than it."""
    asked: list[str] = []

    class Recording(AgingStore):
        def listed(self, prefix: str = ""):  # type: ignore[no-untyped-def]
            asked.append(prefix)
            return super().listed(prefix)

    recording = Recording(store.inner)
    make_plan(recording, ANY_SHARE, now_s=store.now_s())
    assert asked[-1] == ""
    assert asked.count("") == 1


def test_a_lockfile_is_asked_for_once_however_many_roots_name_it(store: AgingStore) -> None:
    for serial in range(2, 9):
        point(store, OURS, serial=serial)
        announce(store, locks=[OURS.lock.digest], blobs=[Digest.of(b"x")])
    before = store.traffic.bytes_read
    plan_of(store)
    assert store.traffic.bytes_read - before < 2 * len(OURS.lock.to_bytes()) + 100_000
