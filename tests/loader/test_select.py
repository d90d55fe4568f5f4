"""Choosing a device profile: a pure function, so every product on the market can be tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelforge.device import DeviceProfile
from kernelforge.errors import DeviceMismatch
from kernelforge.loader.found_device import FoundDevice
from kernelforge.loader.select import Accepted, Rejected, judge, select_profile
from kernelforge.lockfile import LockedPack, Lockfile
from kernelforge.target import Target
from tests.loader.fake_release import H200, locked_pack, profile

HOST = "x86_64-linux-gnu"
B200 = replace(H200, name="NVIDIA B200", capability=(10, 0), num_sms=148)


def lock_of(*profiles: DeviceProfile, packs: dict[str, LockedPack] | None = None) -> Lockfile:
    made = {each.name: locked_pack(each.name.encode(), target=Target(each.arch, HOST)) for each in profiles}
    return Lockfile(
        name="test",
        abi="",
        contract=1,
        toolchains={},
        devices={each.name: each for each in profiles},
        kernels={},
        entries=(),
        packs=made if packs is None else packs,
    )


H200_PROFILE = profile("h200-sxm", facts={"num_sms": 132, "driver_names": ("NVIDIA H200",)})
H100_PROFILE = profile("h100-sxm", facts={"num_sms": 132, "driver_names": ("NVIDIA H100 80GB HBM3",)})
B200_PROFILE = profile("b200", arch="sm_100a", facts={"num_sms": 148})
LOCK = lock_of(B200_PROFILE, H100_PROFILE, H200_PROFILE)


@pytest.mark.parametrize(("found", "name"), [(H200, "h200-sxm"), (B200, "b200")])
def test_each_device_gets_its_profile(found: FoundDevice, name: str) -> None:
    assert select_profile(LOCK, found, host=HOST) == name


def test_a_refusal_gives_the_reasons_for_every_profile() -> None:
    found = replace(H200, name="NVIDIA L40S", capability=(8, 9), num_sms=142)
    with pytest.raises(DeviceMismatch) as refusal:
        select_profile(LOCK, found, host=HOST)
    text = str(refusal.value)
    assert "device 0, 'NVIDIA L40S' (sm_89, 142 SMs)" in text
    assert "b200: code for sm_100a does not run on an sm_89 device; num_sms is 148 in the profile and 142" in text
    assert "h200-sxm: code for sm_90a does not run on an sm_89 device" in text
    assert "doctor --device" in text


@pytest.mark.parametrize(
    ("arch", "capability", "runs"),
    [
        ("sm_90a", (9, 0), True),
        ("sm_100a", (10, 3), False),
        ("sm_100f", (10, 3), True),
        ("sm_100f", (12, 0), False),
        ("sm_120a", (12, 1), False),
        ("sm_89", (8, 6), False),
    ],
)
def test_suffixes_of_architectures_decide(arch: str, capability: tuple[int, int], runs: bool) -> None:
    made = profile("x", arch=arch, facts={"num_sms": 132})
    pack = locked_pack(b"", target=Target(arch, HOST))
    verdict = judge(made, pack, replace(H200, capability=capability), HOST)
    assert isinstance(verdict, Accepted if runs else Rejected)


@pytest.mark.parametrize(
    "fact",
    ["num_sms", "l2_bytes", "registers_per_sm", "shared_memory_per_sm_bytes", "shared_memory_per_block_bytes"],
)
def test_a_fact_that_the_driver_contradicts_rejects_the_profile(fact: str) -> None:
    """A slice of a card (MIG) has its name and architecture but not its SMs."""
    verdict = judge(profile("x", facts={fact: 7}), locked_pack(b""), H200, HOST)
    assert verdict == Rejected("x", (f"{fact} is 7 in the profile and {getattr(H200, fact)} on the device",))


def test_facts_that_nobody_declared_contradict_nothing() -> None:
    assert judge(profile("x", facts={"num_sms": 132}), locked_pack(b""), H200, HOST) == Accepted("x", is_named=False)


def test_another_host_is_rejected_with_both_triples() -> None:
    verdict = judge(H200_PROFILE, locked_pack(b"", target=Target("sm_90a", HOST)), H200, "aarch64-linux-gnu")
    assert verdict == Rejected("h200-sxm", (f"its pack is for {HOST}, this machine is aarch64-linux-gnu",))


def test_a_profile_and_a_pack_of_different_architectures_fit_nothing() -> None:
    verdict = judge(H200_PROFILE, locked_pack(b"", target=Target("sm_100a", HOST)), H200, HOST)
    assert verdict == Rejected("h200-sxm", ("code for sm_100a does not run on an sm_90 device",))


def test_a_profile_without_a_pack_is_rejected() -> None:
    with pytest.raises(DeviceMismatch, match="h200-sxm: the lockfile has no pack for it"):
        select_profile(lock_of(H200_PROFILE, packs={}), H200, host=HOST)


def test_a_profile_that_knows_the_name_wins_over_one_that_says_nothing() -> None:
    generic = profile("a-generic-hopper", facts={"num_sms": 132})
    assert select_profile(lock_of(generic, H200_PROFILE), H200, host=HOST) == "h200-sxm"


def test_two_that_fit_with_different_packs_are_the_callers_choice() -> None:
    lock = lock_of(profile("one", facts={"num_sms": 132}), profile("two", facts={"num_sms": 132}))
    with pytest.raises(DeviceMismatch, match=r"(?s)one: fits.*two: fits.*profile=") as refusal:
        select_profile(lock, H200, host=HOST)
    assert "several" in str(refusal.value)
    assert select_profile(lock, H200, host=HOST, only="two") == "two"


def test_two_that_fit_with_equal_packs_need_no_choice() -> None:
    profiles = (profile("one", facts={"num_sms": 132}), profile("two", facts={"num_sms": 132}))
    pack = locked_pack(b"the same")
    assert select_profile(lock_of(*profiles, packs={"one": pack, "two": pack}), H200, host=HOST) == "one"


def test_a_named_profile_is_checked_all_the_same() -> None:
    with pytest.raises(DeviceMismatch, match="b200: code for sm_100a"):
        select_profile(LOCK, H200, host=HOST, only="b200")


def test_a_name_that_the_lockfile_lacks_is_answered_with_those_it_has() -> None:
    with pytest.raises(DeviceMismatch, match="b200, h100-sxm, h200-sxm"):
        select_profile(LOCK, H200, host=HOST, only="h200")
