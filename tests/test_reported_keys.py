"""Keys that pods had to compile join the next plan: exactly those, with that reason, or a clear refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kernelforge.contract import Choices
from kernelforge.device import DeviceProfile, Fact
from kernelforge.errors import ContractError
from kernelforge.lockfile import Lockfile
from kernelforge.misses import MissedKey
from kernelforge.plan import Hit, Miss, Plan, PlannedKey, make_plan
from kernelforge.request import KernelRequest
from kernelforge.store.interface import PruneStore
from kernelforge.store.memory import MemoryStore
from kernelforge.target import Target
from tests.planned_world import build_without_compiling, kernel_project

H200 = DeviceProfile("h200", "sm_90a", {"num_sms": Fact(132, "test")})
H100 = DeviceProfile("h100", "sm_90a", {"num_sms": Fact(114, "test")})


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Iterator[Path]:
    with kernel_project(tmp_path) as folder:
        yield folder


def missed(
    width: Any, *, kernel: str = "planned:Fill", device: str = "h200", num_sms: int = 132, **changes: Any
) -> MissedKey:
    values = {"target": Target("sm_90a"), "count": 3, "seconds": 1.5, **changes}
    return MissedKey(kernel, {"width": width, "num_sms": num_sms}, device=device, **values)


def plan(
    *misses: MissedKey,
    store: PruneStore | None = None,
    lock: Lockfile | None = None,
    widths: Sequence[int] = (32, 64),
    devices: Sequence[DeviceProfile] = (H200,),
) -> Plan:
    return make_plan(
        "test",
        [KernelRequest("planned:Fill", {"width": Choices(tuple(widths))})],
        [(device, Target(device.arch)) for device in devices],
        store=store or MemoryStore(),
        domain="dev",
        lock=lock,
        recorded={},
        missed=misses,
    )


def planned(found: Plan, width: Any, num_sms: int = 132) -> PlannedKey:
    (key,) = [key for key in found.keys if key.compile_key == {"width": width, "num_sms": num_sms}]
    return key


def test_exactly_the_reported_keys_are_added_and_say_so() -> None:
    before, after = plan(), plan(missed(96))
    assert {key.symbol for key in after.keys} - {key.symbol for key in before.keys} == {planned(after, 96).symbol}
    assert planned(after, 96).decision == Miss(
        "reported by pods (3 times); never built: no record in the store, and no lockfile to compare with"
    )
    assert planned(after, 96).devices == ("h200",)
    assert all(
        not key.reported and "reported" not in key.decision.reason for key in after.keys if key != planned(after, 96)
    )


def test_their_key_is_that_of_a_manifest_that_asks_for_them() -> None:
    """Otherwise adding the key to the manifest later would build it again."""
    asked, reported = planned(plan(widths=(32, 64, 96)), 96), planned(plan(missed(96)), 96)
    assert (asked.key_digest, asked.symbol) == (reported.key_digest, reported.symbol)


def test_a_key_that_the_manifest_has_by_now_is_nothing_new() -> None:
    assert plan(missed(64)).keys == plan().keys


def test_a_key_of_another_device_with_the_same_target_joins_that_pack() -> None:
    """The object exists for one product; the pack of the other lacks it."""
    found = plan(missed(64, device="h100"), devices=(H200, H100))
    assert planned(found, 64).devices == ("h200", "h100")
    assert planned(found, 64).reported == 3


def test_once_built_they_are_hits_with_the_same_reason() -> None:
    store = MemoryStore()
    lock = build_without_compiling(plan(missed(96), store=store), store)
    assert {entry.compile_key["width"] for entry in lock.entries} == {32, 64, 96}
    again = plan(missed(96), store=store, lock=lock)
    assert len(again.decided(Hit)) == 3
    assert planned(again, 96).decision.reason.startswith("reported by pods (3 times); in the lockfile")


def test_a_kernel_that_the_manifest_does_not_name_is_added_with_its_sources() -> None:
    found = plan(missed(96, kernel="planned:Other"))
    assert set(found.kernels) == {"planned:Fill", "planned:Other"}
    assert len(found.keys) == 3


@pytest.mark.parametrize(
    ("miss", "words"),
    [
        (missed(96, device="b200"), r"b200.*does not build for.*h200 \(sm_90a"),
        (missed(96, target=Target("sm_90a", cuda="cu12")), "cu12.*does not build for"),
        (missed(96, kernel="planned:Gone"), "no class 'Gone'"),
        (missed(96, kernel="gone:Fill"), "no module 'gone'"),
        (missed({"dtype": "torch.bfloat16"}), "cannot be rebuilt.*add it to the manifest"),
        (MissedKey("planned:Fill", {"width": 96}, Target("sm_90a"), "h200", 1, 0.1), "another version of the class"),
    ],
    ids=["device", "target", "class", "module", "type", "version"],
)
def test_reports_that_cannot_be_used_are_errors(miss: MissedKey, words: str) -> None:
    """Passed over in silence, the pods would go on compiling."""
    with pytest.raises(ContractError, match=words):
        plan(miss)
