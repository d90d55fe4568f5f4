"""A small release with no real code in it: two kernels' worth of keys, three device profiles, their packs."""

from __future__ import annotations

from typing import Any

from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile, Fact
from kernelforge.digest import Digest
from kernelforge.lockfile import LockedEntry, LockedKernel, LockedPack, Lockfile
from kernelforge.store.blobs import put_blob
from kernelforge.store.interface import PruneStore
from kernelforge.target import Target

HOPPER, BLACKWELL = Target("sm_90a"), Target("sm_100a")
OTHER = Digest.of(b"other")


def object_bytes(symbol: str, target: Target) -> bytes:
    """What stands for the object of a key."""
    return f"object of {symbol} for {target}".encode()


def pack_bytes(target: Target) -> bytes:
    """What stands for the pack of a target."""
    return f"pack for {target}".encode()


def entry(symbol: str, target: Target, devices: tuple[str, ...], **compile_key: Any) -> LockedEntry:
    """An entry of the kernel ``m:K``."""
    content = object_bytes(symbol, target)
    return LockedEntry("m:K", compile_key, target, Digest.of(content), symbol, Descriptor.raw(content), devices)


def pack(target: Target) -> LockedPack:
    """The pack of a target."""
    content = pack_bytes(target)
    libraries = ("libcudart.so.13", "libtvm_ffi.so")
    return LockedPack(
        target, Digest.of(content), Descriptor.raw(content), "lld 1", libraries, ("TVMFFIEnvGetStream", "a")
    )


def _profile(name: str, arch: str) -> DeviceProfile:
    clusters = Fact({"1": 132, "2": 66}, "measured")
    return DeviceProfile(name, arch, {"num_sms": Fact(132, "measured"), "max_active_clusters": clusters})


LOCK = Lockfile(
    name="qwen3-8b",
    abi="tvm-ffi",
    contract=1,
    toolchains={"cu13": {"flavour": "cu13", "nvidia-cutlass-dsl": "4.8.1"}},
    devices={
        name: _profile(name, arch) for name, arch in (("b200", "sm_100a"), ("h100", "sm_90a"), ("h200", "sm_90a"))
    },
    kernels={
        "m:K": LockedKernel(Digest.of(b"launch"), Digest.of(b"source"), {"m:K.kernel": str(OTHER)}, "--opt-level 3")
    },
    entries=(
        entry("kf_K_1", BLACKWELL, ("b200",), eps=1e-6, tile=4),
        entry("kf_K_1", HOPPER, ("h100", "h200"), eps=1e-6, tile=4),
        entry("kf_K_2", HOPPER, ("h200",), eps=1e-6, tile=8),
    ),
    packs={"b200": pack(BLACKWELL), "h100": pack(HOPPER), "h200": pack(HOPPER)},
)


def fill(store: PruneStore) -> None:
    """Put the blobs that the lockfile names into a store."""
    contents = [pack_bytes(target) for target in (HOPPER, BLACKWELL)]
    contents += [object_bytes(each.symbol, each.target) for each in LOCK.entries]
    for content in contents:
        put_blob(store, content, compress=False)
