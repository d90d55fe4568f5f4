"""The device that the process really uses decides, asked from a driver with two different cards."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelforge.contract import kernel_name, symbol_of
from kernelforge.lockfile import Lockfile
from kernelforge.target import Target
from tests.loader.fake_release import TARGET, compile_c, compile_pack, locked_entry, locked_pack, lockfile, profile
from tests.loader.python_process import run_python
from tests.loader.scale import Scale

KEY = Scale.CompileKey(head_dim=64)
SYMBOL = symbol_of(kernel_name(Scale), KEY)
# Entry number i of a pack multiplies by i + 1, so each card's pack gives another result.
SYMBOLS = {"hopper": [SYMBOL], "ada": ["kf_first", SYMBOL]}
LOAD = """
import ctypes, json, sys
from pathlib import Path
sys.modules["torch"] = None
from kernelforge import LocalFile, load
from kernelforge.errors import KernelForgeError
from tests.loader.test_device_in_use import KEY
driver = ctypes.CDLL("libcuda.so.1")
folder, options, current = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
if current is not None:
    driver.fake_driver_make_current(current)
before = driver.fake_driver_leftovers()
try:
    places = {"store": str(folder / "store"), "cache": folder / "cache"}
    kernels = load(folder / "x.lock.json", trust=LocalFile(), **places, **options)
    answer = [kernels.device.name, kernels[KEY](1)]
except KernelForgeError as error:
    answer = [type(error).__name__, str(error)]
assert driver.fake_driver_leftovers() == before, "the current device or a context changed"
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver, and a release for both of its cards: an sm_90 one with 132 SMs and an sm_89 one with 142."""
    from kernelforge.store.blobs import put_blob
    from kernelforge.store.file import FileStore

    folder = tmp_path_factory.mktemp("two-cards")
    compile_c(Path(__file__).with_name("fake_driver.c"), folder / "libcuda.so.1")
    store = FileStore(folder / "store")
    libraries = {}
    for name, arch in (("hopper", "sm_90a"), ("ada", "sm_89")):
        (folder / name).mkdir()
        libraries[name] = compile_pack(folder / name, SYMBOLS[name], arch=arch)
        put_blob(store, libraries[name], compress=False)
    (folder / "x.lock.json").write_bytes(two_cards(libraries).to_bytes())
    return folder


def two_cards(libraries: dict[str, bytes], *, num_sms: int = 132) -> Lockfile:
    hopper = profile("hopper", facts={"num_sms": num_sms, "driver_names": ("NVIDIA Fake 0",)})
    ada = profile("ada", arch="sm_89", facts={"num_sms": 142, "driver_names": ("NVIDIA Fake 1",)})
    ada_target = Target("sm_89", TARGET.host, TARGET.cuda)
    return replace(
        lockfile(libraries["hopper"], keys=()),
        devices={"hopper": hopper, "ada": ada},
        entries=(locked_entry(KEY, devices=("hopper",)), locked_entry(KEY, target=ada_target, devices=("ada",))),
        packs={"hopper": locked_pack(libraries["hopper"]), "ada": locked_pack(libraries["ada"], target=ada_target)},
    )


def ask(
    folder: Path, *, current: int | None = None, visible: str | None = None, fault: str = "", **options: Any
) -> Any:
    environment = {"LD_LIBRARY_PATH": str(folder), "FAKE_DRIVER": fault}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    return json.loads(run_python(LOAD, str(folder), json.dumps(options), json.dumps(current), environment=environment))


@pytest.fixture(autouse=True)
def _all_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_without_a_current_device_it_is_the_first(folder: Path) -> None:
    assert ask(folder) == ["hopper", 1]


def test_the_current_device_gets_its_own_kernels(folder: Path) -> None:
    """Not device 0: a rank that chose the second card would be given kernels for the first."""
    assert ask(folder, current=1) == ["ada", 2]


def test_a_named_device_wins_over_the_current_one(folder: Path) -> None:
    assert ask(folder, current=1, device=0) == ["hopper", 1]


@pytest.mark.parametrize(("visible", "name", "result"), [("1,0", "ada", 2), ("1", "ada", 2), ("0,1", "hopper", 1)])
def test_ordinals_count_what_the_process_sees(folder: Path, visible: str, name: str, result: int) -> None:
    """CUDA_VISIBLE_DEVICES turns the cards round: ordinal 0 is then the machine's second."""
    assert ask(folder, visible=visible, device=0) == [name, result]
    assert ask(folder, visible=visible) == [name, result]


def test_a_device_that_the_process_does_not_see(folder: Path) -> None:
    kind, text = ask(folder, visible="1", device=1)
    assert (kind, "no device 1: this process sees 1" in text) == ("DeviceMismatch", True)


def test_a_profile_insisted_on_does_not_overrule_the_card(folder: Path) -> None:
    """A1: the kernels of the other card, chosen by hand."""
    kind, text = ask(folder, current=1, profile="hopper")
    assert kind == "DeviceMismatch"
    assert "code for sm_90a does not run on an sm_89 device" in text
    assert "num_sms is 132 in the profile and 142 on the device" in text


@pytest.mark.parametrize(("fault", "found"), [("550", "12.4"), ("570", "12.8")])
def test_a_driver_older_than_the_pack_is_refused_with_both_versions_and_the_fix(
    folder: Path, fault: str, found: str
) -> None:
    """C5: deep in a launch the same would read 'PTX was compiled with an unsupported toolchain', or worse."""
    kind, text = ask(folder, fault=fault)
    assert kind == "RuntimeUnfit"
    assert f"supports CUDA up to {found}, the pack is for cu13 and needs 13.0" in text
    assert "install driver 580.65.06 or later" in text


def test_a_570_driver_is_too_old_for_the_cuda_12_9_compiler(folder: Path, tmp_path: Path) -> None:
    """C5: same major version, and yet refused by the driver at the first launch."""
    lock = Lockfile.parse((folder / "x.lock.json").read_bytes())
    cu12 = {name: Target(pack.target.arch, TARGET.host, "cu12") for name, pack in lock.packs.items()}
    older = replace(
        lock,
        toolchains={"cu12": {"nvidia-cutlass-dsl": "4.8.1"}},
        packs={name: replace(pack, target=cu12[name]) for name, pack in lock.packs.items()},
        entries=tuple(replace(entry, target=cu12[entry.devices[0]]) for entry in lock.entries),
    )
    (tmp_path / "x.lock.json").write_bytes(older.to_bytes())
    (tmp_path / "libcuda.so.1").write_bytes((folder / "libcuda.so.1").read_bytes())
    os.symlink(folder / "store", tmp_path / "store")
    kind, text = ask(tmp_path, fault="570")
    assert kind == "RuntimeUnfit"
    assert "supports CUDA up to 12.8, the pack is for cu12 and needs 12.9" in text
    assert "install driver 575.51.03 or later" in text
    assert not (tmp_path / "cache").exists(), "the driver comes before the download"
    assert ask(tmp_path) == ["hopper", 1]
