"""A pack made by the real builder: opens, and refuses what it must, on a machine without a GPU."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest

from kernelforge import KernelSet, LocalFile, load
from kernelforge.builder.job import OBJECT_FILE
from kernelforge.builder.link import Linked, find_linker
from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile
from kernelforge.errors import CallRefused, PackCorrupt
from kernelforge.lockfile import Lockfile
from kernelforge.target import Target
from tests.builder.compiling import compile_all, requests_of
from tests.kernel_family import Copy
from tests.loader.fake_release import H200, TARGET, locked_entry, lockfile, profile

pytestmark = pytest.mark.slow
KEY = Copy.CompileKey(width=32, num_sms=132)


def link(folder: Path, device: DeviceProfile) -> Linked:
    results = compile_all(requests_of("Copy"), [device], folder)
    objects = [(one.job.symbol, (one.folder / OBJECT_FILE).read_bytes()) for one in results.values()]
    return find_linker(Target(device.arch)).link(objects, folder)


def lock_for(pack: Linked) -> Lockfile:
    made = lockfile(pack.library, keys=())
    locked = replace(
        made.packs["h200-sxm"], blob=Descriptor.raw(pack.library), needed=pack.needed, undefined=pack.undefined
    )
    kernels = {"tests.kernel_family:Copy": made.kernels["tests.loader.scale:Scale"]}
    return replace(made, kernels=kernels, entries=(locked_entry(KEY, target=TARGET),), packs={"h200-sxm": locked})


def load_pack(pack: Linked, folder: Path) -> KernelSet:
    (folder / "pack.so").write_bytes(pack.library)
    (folder / "x.lock.json").write_bytes(lock_for(pack).to_bytes())
    return load(folder / "x.lock.json", trust=LocalFile(), pack=folder / "pack.so", device=H200)


def test_a_real_pack_opens_and_refuses_tensors_of_the_wrong_device(tmp_path: Path, h200: DeviceProfile) -> None:
    torch = pytest.importorskip("torch")
    try:
        ctypes.CDLL("libcudart.so.13")
    except OSError as error:
        pytest.skip(f"no CUDA runtime on this machine: {error}")
    kernels = load_pack(link(tmp_path, h200), tmp_path)
    source, target = torch.ones(4, 32), torch.zeros(4, 32)
    with pytest.raises(CallRefused, match=r"device_type=cuda; nothing was launched.*num_sms=132, width=32"):
        kernels[KEY](source, target)
    with pytest.raises(CallRefused, match="Expects 2 parameters"):
        kernels[KEY](source)
    assert not target.any()


def test_real_device_code_for_another_architecture_is_recognised(tmp_path: Path) -> None:
    """A1: what the device image says about itself counts, not the name it goes under."""
    blackwell = profile("b200", arch="sm_100a", facts={"num_sms": 132})
    with pytest.raises(PackCorrupt, match=r"sm_90a.*sm_100a"):
        load_pack(link(tmp_path, blackwell), tmp_path)
