"""Every key is a hit, a miss or trouble, each with a reason; what did not change costs no request per key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelforge.contract import Choices, IntRange
from kernelforge.device import DeviceProfile, Fact
from kernelforge.digest import Digest
from kernelforge.errors import ContractError, FormatUnknown, StoreDenied, StoreError, StoreUnavailable
from kernelforge.keys.toolchain import Toolchain
from kernelforge.lockfile import Lockfile
from kernelforge.plan import Hit, Miss, Plan, PlannedKey, StoreTrouble, make_plan
from kernelforge.request import KernelRequest
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import MARKER, action_name, blob_name
from kernelforge.store.memory import MemoryStore
from kernelforge.target import Target
from tests.failing_store import FailingStore
from tests.planned_world import build_without_compiling, kernel_project

WIDTHS: Mapping[str, Any] = {"width": Choices((32, 64, 96))}


def profile(name: str, *, arch: str = "sm_90a", num_sms: int = 132, l2_bytes: int = 1) -> DeviceProfile:
    return DeviceProfile(name, arch, {"num_sms": Fact(num_sms, "test"), "l2_bytes": Fact(l2_bytes, "test")})


H200, B200 = profile("h200"), profile("b200", arch="sm_100a", num_sms=148)


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Iterator[Path]:
    """The folder of the kernel's project."""
    with kernel_project(tmp_path) as folder:
        yield folder


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def plan(
    store: PruneStore,
    *,
    lock: Lockfile | None = None,
    kernel: str = "planned:Fill",
    arguments: Mapping[str, Any] = WIDTHS,
    devices: Sequence[DeviceProfile] = (H200,),
    recorded: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    targets = [(device, Target(device.arch)) for device in devices]
    requests = [KernelRequest(kernel, arguments)]
    return make_plan("test", requests, targets, store=store, domain="dev", lock=lock, recorded=recorded or {})


def reasons(made: Plan) -> list[str]:
    """The reasons of the misses; all keys must be misses."""
    assert made.decided(Miss) == made.keys
    return [key.decision.reason for key in made.keys if isinstance(key.decision, Miss)]


def first_of(made: Plan) -> PlannedKey:
    return made.keys[0]


def test_nothing_was_built_yet(store: MemoryStore) -> None:
    made = plan(store, devices=(H200, B200))
    assert set(reasons(made)) == {"never built: no record in the store, and no lockfile to compare with"}
    assert len(made.keys) == 6
    assert [(each.device, each.points, each.keys) for each in made.expansions] == [("h200", 3, 3), ("b200", 3, 3)]


def test_build_records_are_hits(store: MemoryStore) -> None:
    """Without a lockfile, as in a pull request's first build: object, facts and seconds come from the records."""
    build_without_compiling(plan(store), store)
    made = plan(store)
    for key in made.keys:
        assert isinstance(key.decision, Hit)
        assert key.decision.reason == "in the action cache"
        assert (key.decision.seconds, key.decision.facts) == (0.5, {"registers": 40})
        assert store.size(blob_name(key.decision.object.stored_digest)) > 0


def test_a_lockfile_is_confirmed_with_one_request_per_pack(store: MemoryStore) -> None:
    """Of 1,000 keys on two devices: format marker, list of damage, who published the lockfile, and two packs."""
    wide = {"width": IntRange(1, 1001)}
    lock = build_without_compiling(plan(store, arguments=wide, devices=(H200, B200)), store)
    recorded = {str(lock.entries[0].key_digest): {"seconds": 2.5, "registers": 8}}
    before = store.traffic.requests
    made = plan(store, arguments=wide, devices=(H200, B200), lock=lock, recorded=recorded)
    assert store.traffic.requests - before == 3 + 2
    assert store.traffic.lists == 0
    assert len(made.decided(Hit)) == 2000
    seconds = {key.decision.seconds for key in made.keys if isinstance(key.decision, Hit)}
    assert seconds == {0.0, 2.5}, "seconds saved are known where the companion has them"


def test_a_miss_says_what_the_key_took_before(store: MemoryStore) -> None:
    """With other sources, or in another store: the longest are begun first."""
    lock = build_without_compiling(plan(store), store)
    took = lock.entries[0]
    made = plan(MemoryStore(), lock=lock, recorded={str(took.key_digest): {"seconds": 2.5}})
    seconds = {key.symbol: key.seconds_before for key in made.decided(Miss)}
    assert seconds.pop(took.symbol) == 2.5
    assert set(seconds.values()) == {None}


def test_what_others_have_built_costs_nothing() -> None:
    """The registry of a whole company: 100,000 records of other deployments, in this domain."""
    requests = []
    for foreign in (0, 100_000):
        store = MemoryStore()
        for number in range(foreign):
            store.create(action_name("dev", Digest.of(str(number).encode())), b"{}")
        before = store.traffic.requests
        assert len(plan(store).keys) == 3
        requests.append(store.traffic.requests - before)
        assert store.traffic.lists == 0
    assert requests[0] == requests[1]


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_without_its_pack_a_lockfile_vouches_for_nothing(store: MemoryStore, is_cut_off: bool) -> None:
    """Case E3: the keys are looked up one by one, and those that exist are hits all the same."""
    lock = build_without_compiling(plan(store), store)
    pack = blob_name(lock.packs["h200"].blob.stored_digest)
    store.delete(pack)
    if is_cut_off:
        store.create(pack, b"x")
    made = plan(store, lock=lock)
    assert {key.decision.reason for key in made.keys if isinstance(key.decision, Hit)} == {"in the action cache"}


def test_an_empty_store_is_named_as_the_reason(store: MemoryStore) -> None:
    lock = build_without_compiling(plan(store), store)
    assert set(reasons(plan(MemoryStore(), lock=lock))) == {"the lockfile has it, this store does not"}


def test_a_changed_source_is_named(store: MemoryStore, project: Path) -> None:
    """Case A7: a helper's body changed, in a module that only the builder imports."""
    lock = build_without_compiling(plan(store), store)
    device_code = project / "planned_device.py"
    device_code.write_text(device_code.read_text().replace("return 1", "return 2"))
    assert set(reasons(plan(store, lock=lock))) == {"source planned_device:helper changed"}


def test_a_changed_compiler_is_named(store: MemoryStore) -> None:
    """Case H1."""
    made = plan(store)
    lock = build_without_compiling(made, store)
    [toolchain] = made.toolchains.values()
    older = Toolchain(toolchain.cuda, {**toolchain.versions, "nvidia-cutlass-dsl": "4.7.1"})
    digests = {key.symbol: replace(key.preimage, toolchain=older).digest() for key in made.keys}
    entries = tuple(replace(entry, key_digest=digests[entry.symbol]) for entry in lock.entries)
    old_lock = replace(lock, toolchains={"cu13": older.to_json()}, entries=entries)
    found = toolchain.versions["nvidia-cutlass-dsl"]
    assert set(reasons(plan(MemoryStore(), lock=old_lock))) == {f"toolchain nvidia-cutlass-dsl 4.7.1 -> {found}"}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"arguments": {"width": 100}}, r"new key: width (32|64|96) -> 100 \(from the nearest in the lockfile\)"),
        ({"devices": [profile("h100", num_sms=114)], "arguments": {"width": 64}}, "new key: num_sms 132 -> 114 "),
        ({"devices": [B200]}, "the lockfile has no keys of this kernel for sm_100a/x86_64-linux-gnu/cu13"),
        ({"kernel": "planned:Other"}, "the kernel is not in the lockfile"),
    ],
    ids=["field", "device fact", "target", "kernel"],
)
def test_a_key_that_the_lockfile_lacks_is_compared(store: MemoryStore, changed: Any, reason: str) -> None:
    """Case H1: what is new about it, not just that it is new."""
    lock = build_without_compiling(plan(store), store)
    for found in reasons(plan(store, lock=lock, **changed)):
        assert re.match(reason, found)


def test_profiles_with_equal_facts_share_keys(store: MemoryStore) -> None:
    """One object for both; facts that no key asks for do not matter."""
    made = plan(store, devices=(H200, profile("h100"), profile("h20", l2_bytes=2), profile("h800", num_sms=114)))
    shared = {key.devices for key in made.keys}
    assert shared == {("h200", "h100", "h20"), ("h800",)}
    assert len(made.keys) == 6


def test_one_architecture_does_not_hit_for_another(store: MemoryStore) -> None:
    """Case A1: equal facts, equal sources, another target."""
    build_without_compiling(plan(store), store)
    assert set(reasons(plan(store, devices=(profile("b200", arch="sm_100a"),))))


def test_fewer_architectures_are_hits(store: MemoryStore) -> None:
    """Case H5."""
    build_without_compiling(plan(store, devices=(H200, B200)), store)
    assert len(plan(store, devices=(B200,)).decided(Hit)) == 3


def test_a_record_under_another_keys_name_is_never_a_hit(store: MemoryStore) -> None:
    """Case A1: an sm_100a object renamed by hand to the sm_90a key."""
    build_without_compiling(plan(store, devices=(B200,)), store)
    theirs, ours = first_of(plan(store, devices=(B200,))), first_of(plan(store))
    data = store.get(action_name("dev", theirs.key_digest), limit_bytes=1 << 20)
    store.create(action_name("dev", ours.key_digest), data)
    found = first_of(plan(store)).decision
    assert isinstance(found, Miss)
    assert found.reason.startswith("the store's copy is damaged: is the record of")
    assert str(theirs.key_digest) in found.reason


@pytest.mark.parametrize("how", ["record", "object", "cut off"])
def test_a_key_whose_bytes_are_gone_or_damaged_is_a_miss(store: MemoryStore, how: str) -> None:
    """Cases E2 and E3: one of the two is lost, or truncated; that key is built again and the others are hits."""
    key = first_of(plan(store))
    lock = build_without_compiling(plan(store), store)
    entry = next(entry for entry in lock.entries if entry.symbol == key.symbol)
    name = action_name("dev", key.key_digest) if how == "record" else blob_name(entry.object.stored_digest)
    store.delete(name)
    if how == "cut off":
        store.create(name, b"x")
    made = plan(store)
    assert [missed.symbol for missed in made.decided(Miss)] == [key.symbol]
    assert len(made.decided(Hit)) == 2


@pytest.mark.parametrize("prefix", ["", "v1/dev/actions/"], ids=["all", "records"])
@pytest.mark.parametrize("kind", [StoreDenied, StoreUnavailable])
def test_trouble_with_the_store_is_no_miss(kind: type[StoreError], prefix: str) -> None:
    """Case F2: expired credentials counted as misses kept every CI build cold for weeks."""
    made = plan(FailingStore(kind("403 InvalidAccessKeyId", hint="renew them"), prefix))
    assert made.decided(StoreTrouble) == made.keys
    for key in made.keys:
        assert isinstance(key.decision, StoreTrouble)
        assert key.decision.reason == f"{kind.__name__}: 403 InvalidAccessKeyId (hint: renew them)"


def test_a_store_that_is_down_is_asked_once() -> None:
    """A deadline for each of 1,000 keys would be hours."""
    store = FailingStore(StoreUnavailable("no answer", hint="wait"))
    plan(store, arguments={"width": IntRange(1, 1001)})
    assert store.asked == [MARKER]


def test_a_store_of_a_later_version_is_refused() -> None:
    """Writing into it with names of this version would damage it."""
    store = MemoryStore()
    store.create(MARKER, b'{"schema":"kernelforge.store/2"}\n')
    with pytest.raises(FormatUnknown):
        plan(store)


def test_a_kernel_for_another_compiler_is_refused_at_plan(store: MemoryStore, project: Path) -> None:
    """It would fail key by key, deep inside a trace."""
    kernel = project / "planned.py"
    kernel.write_text(kernel.read_text().replace(">=4.8", "==4.7.*"))
    with pytest.raises(ContractError, match=r"planned:Fill requires nvidia-cutlass-dsl ==4\.7\.\*, found 4\."):
        plan(store)


def test_the_order_of_requests_and_devices_does_not_matter(store: MemoryStore) -> None:
    """Case B3."""

    def keys(kernels: Sequence[str], devices: Sequence[DeviceProfile]) -> list[tuple[str, str]]:
        targets = [(device, Target(device.arch)) for device in devices]
        requests = [KernelRequest(kernel, WIDTHS) for kernel in kernels]
        made = make_plan("test", requests, targets, store=store, domain="dev", lock=None, recorded={})
        return [(key.symbol, str(key.key_digest)) for key in made.keys]

    kernels = ("planned:Fill", "planned:Other")
    assert keys(kernels, (H200, B200)) == keys(kernels[::-1], (B200, H200))


def test_a_new_key_that_differs_in_type_alone_says_so(store: MemoryStore) -> None:
    """Case A3: 32 and 32.0 are two keys, and 'new key:  (from the nearest)' explains nothing."""
    lock = build_without_compiling(plan(store), store)
    [reason] = reasons(plan(store, lock=lock, arguments={"width": 32.0}))
    assert reason.startswith("new key: width 32 -> 32.0")


def test_a_miss_has_a_reason_when_the_key_schema_changed(store: MemoryStore) -> None:
    """Case B10: a lockfile does not hold the schema version, so nothing that can be compared differs."""
    lock = build_without_compiling(plan(store), store)
    entries = tuple(replace(entry, key_digest=entry.object.content_digest) for entry in lock.entries)
    assert all(reasons(plan(MemoryStore(), lock=replace(lock, entries=entries))))
