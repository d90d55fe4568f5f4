from __future__ import annotations

import json

from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile, Fact
from kernelforge.digest import Digest
from kernelforge.lockfile import LockedEntry, LockedKernel, LockedPack, Lockfile
from kernelforge.report.lock_summary import lock_document, summarise_lockfile
from kernelforge.report.table import render_document
from kernelforge.target import Target

HOPPER, BLACKWELL = Target("sm_90a"), Target("sm_100a")


def locked(number: int, target: Target, *devices: str, kernel: str = "pack.norms:Norm") -> LockedEntry:
    return LockedEntry(
        kernel=kernel,
        compile_key={"width": number},
        target=target,
        key_digest=Digest.of(f"key {number} {target} {kernel}".encode()),
        symbol=f"kf_{kernel.rpartition(':')[2]}_{number}",
        object=Descriptor.raw(b"o" * (100 + number)),
        devices=devices,
    )


def lockfile(*entries: LockedEntry) -> Lockfile:
    targets = {device: entry.target for entry in entries for device in entry.devices}
    kernel = LockedKernel(Digest.of(b"launch"), Digest.of(b"source"), {}, "")
    return Lockfile(
        name="qwen3-8b",
        abi="tvm-ffi",
        contract=1,
        toolchains={"cu13": {"nvidia-cutlass-dsl": "4.8.1"}},
        devices={
            name: DeviceProfile(name, target.arch, {"num_sms": Fact(132, "a test")}) for name, target in targets.items()
        },
        kernels={entry.kernel: kernel for entry in entries},
        entries=entries,
        packs={
            name: LockedPack(target, Digest.of(b"recipe"), Descriptor.raw(name.encode() * 50), "lld", (), ())
            for name, target in targets.items()
        },
    )


ENTRIES = (
    locked(1, HOPPER, "h100-sxm", "h200-sxm"),
    locked(2, HOPPER, "h200-sxm"),
    locked(1, HOPPER, "h200-sxm", kernel="pack.norms:Other"),
    locked(1, BLACKWELL, "b200"),
)
FACTS = {
    str(ENTRIES[0].key_digest): {"seconds": 1.5, "registers": 24, "spill_bytes": 0, "static_shared_memory_bytes": 64},
    str(ENTRIES[1].key_digest): {"seconds": 2.0, "registers": 40, "spill_bytes": 16, "static_shared_memory_bytes": 64},
}


def test_keys_seconds_and_registers_by_kernel_and_target() -> None:
    summary = summarise_lockfile(lockfile(*ENTRIES), FACTS, path="a.lock.json")
    norm = next(line for line in summary.kernels if (line.kernel, line.target) == ("pack.norms:Norm", str(HOPPER)))
    assert (norm.keys, norm.seconds, norm.registers, norm.spill_bytes) == (2, 3.5, (24, 40), (0, 16))
    assert norm.shared_memory_bytes == (64, 64)
    assert norm.object_bytes == 101 + 102
    assert (summary.keys, summary.keys_with_facts, len(summary.kernels)) == (4, 2, 3)


def test_each_device_has_its_pack_with_the_keys_in_it() -> None:
    summary = summarise_lockfile(lockfile(*ENTRIES), FACTS, path="a.lock.json")
    assert {pack.device: pack.keys for pack in summary.packs} == {"b200": 1, "h100-sxm": 1, "h200-sxm": 3}
    assert all(pack.size_bytes == 50 * len(pack.device) for pack in summary.packs)


def test_facts_that_nobody_has_are_not_invented() -> None:
    """A lockfile without its companion says what it holds and shows '-', not 0, for registers."""
    summary = summarise_lockfile(lockfile(*ENTRIES), {}, path="a.lock.json")
    text = render_document(lock_document(summary))
    assert all(line.registers is None for line in summary.kernels)
    assert "CPU time" not in text
    assert ["2", "0.00", "-", "-", "-", "203", "B", "pack.norms:Norm"] in [line.split() for line in text.splitlines()]


def test_partial_facts_say_of_how_many_keys_they_are() -> None:
    text = render_document(lock_document(summarise_lockfile(lockfile(*ENTRIES), FACTS, path="a.lock.json")))
    assert "compiling all of it took 3.50 s of CPU time (known for 2 keys)" in text
    assert "4 keys, 3 packs" in text


def test_json_is_a_document_of_its_own() -> None:
    """Nothing hit or missed, so it must not pass for a report."""
    lock = lockfile(*ENTRIES)
    document = json.loads(json.dumps(summarise_lockfile(lock, FACTS, path="a.lock.json").to_json()))
    assert document["schema"] == "kernelforge.locked/1"
    assert document["digest"] == str(lock.digest)
    assert document["kernels"][0]["kernel"] == "pack.norms:Norm"
