"""Ready means ready: after a load with ``preload`` the first call loads nothing (issue 3; cases A8 and C11).

A pack of the real builder, called in processes whose driver has two devices without a card and whose CUDA runtime only
records; as with CUDA, it brings an image onto a device when a kernel is first needed there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelforge.builder.job import OBJECT_FILE
from kernelforge.builder.link import find_linker
from kernelforge.builder.preload_code import PRELOAD_ENTRY
from kernelforge.descriptor import Descriptor
from kernelforge.errors import RuntimeUnfit, UsageError
from kernelforge.loader.preload import _ENTRY, devices_to_preload
from kernelforge.lockfile import Lockfile
from tests.builder.compiling import compile_all, requests_of
from tests.kernel_family import Copy, Untidy
from tests.kernels.recorded_launch import recording_runtime
from tests.loader.conftest import Release
from tests.loader.fake_release import H200, TARGET, compile_c, locked_entry, lockfile, profile
from tests.loader.python_process import run_python

KEYS = (Copy.CompileKey(width=32, num_sms=132), Untidy.CompileKey(width=32, num_sms=132))
H200_LIKE = profile("h200-sxm", facts={"num_sms": 132})


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pack of two kernels, its lockfile, a driver and a recording CUDA runtime."""
    folder = tmp_path_factory.mktemp("pod")
    results = compile_all(requests_of("Copy", "Untidy"), [H200_LIKE], tmp_path_factory.mktemp("objects"))
    objects = [(one.job.symbol, (one.folder / OBJECT_FILE).read_bytes()) for one in results.values()]
    pack = find_linker(TARGET).link(objects, folder)
    (folder / "pack.so").write_bytes(pack.library)
    recording_runtime(pack.library, TARGET, folder)
    compile_c(Path(__file__).with_name("fake_driver.c"), folder / "libcuda.so.1")
    (folder / "x.lock.json").write_bytes(lock_for(pack.library, pack.needed, pack.undefined).to_bytes())
    return folder


def lock_for(library: bytes, needed: tuple[str, ...], undefined: tuple[str, ...]) -> Lockfile:
    made = lockfile(library, keys=())
    pack = replace(made.packs["h200-sxm"], blob=Descriptor.raw(library), needed=needed, undefined=undefined)
    kernel = made.kernels["tests.loader.scale:Scale"]
    return replace(
        made,
        devices={"h200-sxm": H200_LIKE},
        kernels={f"tests.kernel_family:{name}": kernel for name in ("Copy", "Untidy")},
        entries=tuple(locked_entry(key, target=TARGET) for key in KEYS),
        packs={"h200-sxm": pack},
    )


def in_pod(folder: Path, code: str, *, driver: str = "twins") -> Any:
    """What ``code`` answers in a process of its own."""
    start = "from tests.loader.preloaded_pod import *\n"
    return json.loads(
        run_python(start + code, str(folder), environment={"LD_LIBRARY_PATH": str(folder), "FAKE_DRIVER": driver})
    )


@pytest.mark.slow
def test_the_first_call_after_a_preload_loads_nothing(pod: Path) -> None:
    """The first request would pay for the images of all kernels that it meets."""
    found = in_pod(
        pod,
        "kernels = load(preload=True); loaded = state(); launch_all(0)\n"
        "answer(loaded=loaded, later=state(), steps=list(kernels.stats().seconds))",
    )
    assert found["loaded"]["images"] == 2, "each image once"
    assert found["loaded"]["on_device"] == [2, 0]
    assert found["loaded"]["launches"] == 0
    assert found["later"] == {**found["loaded"], "launches": 2}
    assert "preload" in found["steps"]


@pytest.mark.slow
def test_without_preload_the_first_call_loads(pod: Path) -> None:
    """What the tests beside this one rely on: the recording runtime loads as late as CUDA does."""
    found = in_pod(
        pod,
        "kernels = load(); loaded = state(); launch_all(0)\n"
        "answer(loaded=loaded, later=state(), steps=list(kernels.stats().seconds))",
    )
    assert (found["loaded"]["images"], found["loaded"]["on_device"]) == (0, [0, 0])
    assert (found["later"]["images"], found["later"]["on_device"]) == (2, [2, 0])
    assert "preload" not in found["steps"]


@pytest.mark.slow
@pytest.mark.parametrize("preload", ["[0, 1]", "False"])
def test_each_of_two_devices_gets_its_own_load(pod: Path, preload: str) -> None:
    """A8: something remembered without its device gives device 1 what was loaded on device 0."""
    found = in_pod(
        pod,
        f"set_number('device_count', 2); load(preload={preload}); loaded = state()\n"
        "devices = launch_all(0) + launch_all(1); answer(loaded=loaded, later=state(), devices=devices)",
    )
    assert found["devices"] == [0, 0, 1, 1]
    assert found["later"]["on_device"] == [2, 2]
    assert found["later"]["images"] == 2
    assert found["loaded"]["on_device"] == ([2, 2] if preload == "[0, 1]" else [0, 0])
    assert found["later"]["current"] == 0, "C11: also after launches on another device"


@pytest.mark.slow
def test_the_current_device_is_the_same_after_a_preload(pod: Path) -> None:
    """C11: a preload that selects its devices leaves the last of them selected."""
    before_and_after = in_pod(
        pod,
        "driver.fake_driver_make_current(1); before = state()\n"
        "load(preload=[0, 1]); answer(before=before, after=state())",
    )
    before, after = before_and_after["before"], before_and_after["after"]
    assert (before["current"], after["current"]) == (1, 1)
    assert after["contexts"] == before["contexts"] == 1
    assert after["on_device"] == [2, 2]


@pytest.mark.slow
def test_a_thread_without_a_context_still_has_none_after_a_preload(pod: Path) -> None:
    """Setting the device back to 0 would make a context there, in every process that uses another device."""
    after = in_pod(pod, "load(preload=[1]); answer(**state())")
    assert after["on_device"] == [0, 2]
    assert (after["current"], after["contexts"], after["set_device_calls"]) == (0, 0, 0)
    assert after["retained"] == 1, "the context of device 1 stays, or the code in it would go"


@pytest.mark.slow
def test_preloading_twice_loads_once(pod: Path) -> None:
    once = in_pod(pod, "load(preload=True); answer(**state())")
    twice = in_pod(pod, "load(preload=True); load(preload=[0, 0]); answer(**state())")
    for what in ("images", "on_device", "launches"):
        assert twice[what] == once[what]


@pytest.mark.slow
def test_a_device_that_failed_while_another_worked_is_made_up_for(pod: Path) -> None:
    """NVIDIA's runtime prepares all devices once, and then never looks at the one again on which that failed."""
    found = in_pod(
        pod,
        "set_number('device_count', 2); set_number('failing_device', 1); load(preload=[0]); failed = state()\n"
        "set_number('failing_device', -1); load(preload=[1]); answer(failed=failed, later=state())",
    )
    assert (found["failed"]["prepared"][1], found["failed"]["images"]) == (0, 2)
    assert (found["later"]["prepared"][1], found["later"]["images"]) == (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0, 1])
def test_a_device_without_memory_is_named_together_with_cudas_error(pod: Path, failing: int) -> None:
    """NVIDIA's runtime says nothing as long as one device works: the next launch on the other would fail."""
    found = in_pod(
        pod,
        f"set_number('device_count', 2); set_number('failing_device', {failing})\n"
        "error = attempt(preload=[0, 1]); answer(error=error, state=state())",
    )
    kind, text = found["error"]
    assert kind == "RuntimeUnfit"
    assert f"onto device {failing}" in text
    assert "cudaErrorMemoryAllocation" in text
    assert "nvidia-smi" in text
    assert (found["state"]["current"], found["state"]["contexts"]) == (0, 0)


@pytest.mark.slow
def test_an_image_that_cannot_be_loaded_is_named_by_cudas_error(pod: Path) -> None:
    """Here no device works, and the words are those of NVIDIA's runtime."""
    kind, text = in_pod(pod, "set_number('failing_device', 0); answer(error=attempt(preload=True))")["error"]
    assert kind == "RuntimeUnfit"
    assert "cudaErrorMemoryAllocation" in text


@pytest.mark.slow
def test_a_device_that_the_profile_does_not_fit_is_refused_before_anything_is_loaded(pod: Path) -> None:
    """Kernels for 132 SMs on a card with 142, just because it was named."""
    found = in_pod(pod, "error = attempt(preload=[0, 1]); answer(error=error, state=state())", driver="")
    kind, text = found["error"]
    assert kind == "DeviceMismatch"
    assert "device 1" in text
    assert "num_sms is 132 in the profile and 142 on the device" in text
    assert found["state"]["images"] == 0


@pytest.mark.slow
def test_a_device_that_is_not_there_is_refused(pod: Path) -> None:
    kind, text = in_pod(pod, "answer(error=attempt(preload=[2]))")["error"]
    assert kind == "DeviceMismatch"
    assert "no device 2: this process sees 2" in text


@pytest.mark.slow
def test_a_machine_without_a_driver_is_told_so(pod: Path) -> None:
    kind, text = in_pod(pod, "answer(error=attempt(preload=True))", driver="no device")["error"]
    assert kind == "DeviceMismatch"
    assert "the driver sees no GPU" in text


def test_a_pack_from_before_preload_is_refused(release: Release) -> None:
    """Silence would be taken for 'preloaded'."""
    with pytest.raises(RuntimeUnfit, match=r"cannot be preloaded.*build again"):
        release.load(preload=True)


@pytest.mark.parametrize("preload", [1, 0, "01", [True], [0.0], {0}, None])
def test_what_is_no_list_of_devices_is_refused(release: Release, preload: Any) -> None:
    """``preload=1`` could mean device 1 or yes."""
    with pytest.raises(UsageError, match=r"preload=\[0, 1\]"):
        devices_to_preload(preload, H200, release.lock, "h200-sxm")


def test_which_devices_are_meant(release: Release) -> None:
    def meant(preload: Any) -> tuple[int, ...]:
        return devices_to_preload(preload, replace(H200, ordinal=3), release.lock, "h200-sxm")

    assert meant(True) == (3,)
    assert meant(False) == meant([]) == ()
    assert meant([3, 3]) == (3,)


def test_loader_and_builder_mean_the_same_entry() -> None:
    """Neither may import the other."""
    assert _ENTRY == PRELOAD_ENTRY
