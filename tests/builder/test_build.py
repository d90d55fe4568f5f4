"""How a plan is carried out, with compiles that are made up: what is reused, published, kept, noted and linked.

The real compiler is in `test_pool` and in the tests of the commands; here are outcomes that it cannot be made to give.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelforge.builder.build import BuildResult, BuiltKey, build
from kernelforge.builder.link import find_linker
from kernelforge.contract import Choices
from kernelforge.device import DeviceProfile, Fact
from kernelforge.errors import StoreUnavailable
from kernelforge.lockfile import Lockfile
from kernelforge.plan import Hit, Miss, Plan, StoreTrouble, make_plan
from kernelforge.release.publish import publish_lockfile
from kernelforge.reporting import Outcome
from kernelforge.request import KernelRequest
from kernelforge.store.actions import ActionCache
from kernelforge.store.blobs import get_blob
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import blob_name
from kernelforge.store.memory import MemoryStore
from kernelforge.target import Target
from tests.builder.made_up import FAILURE, OPTIONS, Made, compile_by_making_up, link_by_making_up
from tests.failing_store import FailingStore
from tests.planned_world import build_without_compiling, kernel_project


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Iterator[Path]:
    with kernel_project(tmp_path) as folder:
        yield folder


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Any]], None]:
    """Makes the next builds compile by making things up."""
    return lambda results: compile_by_making_up(monkeypatch, results)


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The symbols of each link."""
    return link_by_making_up(monkeypatch)


def profile(name: str, num_sms: int = 132) -> DeviceProfile:
    return DeviceProfile(name, "sm_90a", {"num_sms": Fact(num_sms, "test")})


def plan(
    store: PruneStore,
    *,
    lock: Lockfile | None = None,
    widths: tuple[int, ...] = (32, 64),
    devices: Sequence[DeviceProfile] = (profile("h200"),),
) -> Plan:
    targets = [(device, Target(device.arch)) for device in devices]
    requests = [KernelRequest("planned:Fill", {"width": Choices(widths)})]
    return make_plan("test", requests, targets, store=store, domain="dev", lock=lock, recorded={})


def run(made: Plan, store: PruneStore) -> tuple[BuildResult, list[BuiltKey]]:
    """The result, and the keys in the order in which their ends were told."""
    told: list[BuiltKey] = []
    result = build(made, store=store, domain="dev", options=OPTIONS, on_progress=told.append)
    return result, told


def test_misses_are_published_and_are_the_next_builds_hits(store: MemoryStore, pools: Any, linked: Any) -> None:
    pools({})
    made = plan(store)
    result, told = run(made, store)
    assert [key.outcome for key in result.keys] == [Outcome.BUILT] * 2 == [key.outcome for key in told]
    for key in result.keys:
        assert key.object is not None
        assert get_blob(store, key.object) == f"object of {key.planned.symbol}".encode()
        record = ActionCache(store, "dev").get(key.planned.key_digest)
        assert record.preimage == key.planned.preimage.to_json()
        assert get_blob(store, record.outputs["cubin"]) == b"image"
        assert (record.seconds, key.facts["registers"]) == (0.5, 40)
    again = plan(store)
    assert again.decided(Hit) == again.keys


def test_hits_start_nothing_and_link_nothing(store: MemoryStore, linked: list[list[str]]) -> None:
    """The second build: no process, and the pack that the lockfile names, if its recipe is still the same."""
    made = plan(store)
    lock = build_without_compiling(made, store)
    target = Target("sm_90a")
    objects = [(entry.symbol, entry.object.content_digest) for entry in lock.entries]
    pack = replace(lock.packs["h200"], recipe=find_linker(target).recipe(objects))
    lock = replace(lock, packs={"h200": pack})
    publish_lockfile(lock, store, facts=None, domain="dev")
    result, told = run(plan(store, lock=lock), store)
    assert {key.outcome for key in told} == {Outcome.REUSED}
    assert (result.processes_started, linked, result.packs) == (0, [], {"h200": pack})


@pytest.mark.parametrize("is_pack_lost", [False, True])
def test_a_pack_is_linked_once_per_recipe(
    store: MemoryStore, pools: Any, linked: list[list[str]], is_pack_lost: bool
) -> None:
    """Devices with equal keys share one; the next build takes it from the action cache unless its bytes are lost."""
    pools({})
    devices = (profile("h100"), profile("h200"), profile("h800", num_sms=114))
    first, _ = run(plan(store, devices=devices), store)
    assert first.packs["h100"] == first.packs["h200"] != first.packs["h800"]
    assert len(linked) == 2
    if is_pack_lost:
        store.delete(blob_name(first.packs["h800"].blob.stored_digest))
    second, _ = run(plan(store, devices=devices), store)
    assert second.packs == first.packs
    assert len(linked) == 2 + is_pack_lost


def test_the_longest_are_begun_first(store: MemoryStore, pools: Any, linked: Any) -> None:
    """What nobody has compiled before may be the longest of all."""
    pools({})
    made = plan(store, widths=(32, 64, 96))
    took = {key.symbol: seconds for key, seconds in zip(made.keys, (1.0, None, 40.0), strict=True)}
    keys = tuple(replace(key, seconds_before=took[key.symbol]) for key in made.keys)
    _, told = run(replace(made, keys=keys), store)
    assert [took[key.planned.symbol] for key in told] == [None, 40.0, 1.0]


def test_a_failure_costs_its_own_key(store: MemoryStore, pools: Any, linked: list[list[str]]) -> None:
    """Case C4: the others are published; what is not complete has no packs, so nothing can take it for a release."""
    made = plan(store, widths=(32, 64, 96))
    failing = made.keys[1].symbol
    pools({failing: FAILURE})
    result, told = run(made, store)
    outcomes = {key.planned.symbol: (key.outcome, key.failure) for key in told}
    assert outcomes.pop(failing) == (Outcome.FAILED, FAILURE)
    assert set(outcomes.values()) == {(Outcome.BUILT, None)}
    assert (result.is_complete, result.packs, linked) == (False, {}, [])
    assert [missed.symbol for missed in plan(store, widths=(32, 64, 96)).decided(Miss)] == [failing]


def test_what_was_published_before_an_interrupt_is_a_hit(store: MemoryStore, pools: Any) -> None:
    """Ctrl-C in the middle: the same command goes on from there."""
    made = plan(store, widths=(32, 64, 96))
    pools({made.keys[2].symbol: KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        run(made, store)
    assert len(plan(store, widths=(32, 64, 96)).decided(Hit)) == 2


@pytest.mark.parametrize(
    ("another", "words"),
    [
        (Made(b"another", image=b"other"), "same PTX, another cubin (ptxas varies)"),
        (Made(b"another", image=b"other", ptx_digest="sha256:other"), "CONFLICT: other PTX from the same key"),
        (Made(b"another"), "CONFLICT: other host code from the same key"),
    ],
    ids=["ptxas", "PTX", "host code"],
)
def test_of_two_objects_of_one_key_the_first_stays(
    store: MemoryStore, pools: Any, linked: Any, another: Made, words: str
) -> None:
    """One ptxas is not deterministic: noted. Anything else from equal inputs is a conflict. Never an overwrite."""
    made = plan(store, widths=(32,))
    pools({})
    first, _ = run(made, store)
    symbol = made.keys[0].symbol
    pools({symbol: another})
    second, _ = run(made, store)
    assert second.keys[0].object == first.keys[0].object
    assert second.packs == first.packs
    assert second.notes == (f"planned:Fill {symbol}: {words}; the first object stays, ours is kept as evidence",)
    assert len(list(store.names("v1/dev/conflicts/"))) == 1


def test_trouble_with_the_store_is_told_and_nothing_is_compiled(pools: Any) -> None:
    """Case F2: compiling everything because a token expired would cost hours, and then fail to publish."""
    pools({})
    store = FailingStore(StoreUnavailable("no answer", hint="wait"))
    made = plan(store)
    assert made.decided(StoreTrouble) == made.keys
    result, told = run(made, store)
    assert {key.outcome for key in told} == {Outcome.STORE_ERROR}
    assert {key.reason for key in told} == {"StoreUnavailable: no answer (hint: wait)"}
    assert (result.is_complete, result.packs, result.processes_started) == (False, {}, 0)
    assert not list(store.names())


@pytest.mark.parametrize("result", [None, FAILURE, KeyboardInterrupt()], ids=["built", "failed", "interrupted"])
def test_a_build_leaves_no_files(
    store: MemoryStore, pools: Any, linked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Any
) -> None:
    """Thousands of keys of 100 KB each would fill a runner's disk."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    made = plan(store)
    pools({made.keys[1].symbol: result} if result else {})
    with contextlib.suppress(KeyboardInterrupt):
        run(made, store)
    assert list(store.names("v1/blobs/"))
    assert list(scratch.iterdir()) == []
