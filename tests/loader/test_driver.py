"""The driver's answers, with a driver made for the test: a real library, asked in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelforge.errors import TargetError
from kernelforge.loader.driver import driver_release
from kernelforge.loader.measured_profile import describe
from tests.loader.fake_release import H200, compile_c

PREPARE = """
import ctypes, dataclasses, json
from kernelforge.errors import KernelForgeError
from kernelforge.loader.driver import Driver, find_device
from kernelforge.loader.measured_profile import measured_profile
from kernelforge.loader.occupancy import max_active_clusters
fake = ctypes.CDLL("libcuda.so.1")
def attempt(call):
    try:
        return call()
    except KernelForgeError as error:
        return [type(error).__name__, str(error)]
"""


@pytest.fixture(scope="session")
def driver_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    compile_c(Path(__file__).with_name("fake_driver.c"), folder / "libcuda.so.1")
    return folder


def ask(folder: Path, expression: str, *, fault: str = "", before: str = "") -> Any:
    """JSON value of an expression in a process whose CUDA driver is the one in ``folder``."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_DRIVER": fault}
    code = f"{PREPARE}{before}\nprint(json.dumps({expression}))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def test_facts_of_a_device(driver_folder: Path) -> None:
    assert ask(driver_folder, "dataclasses.asdict(find_device(0))") == {
        "ordinal": 0,
        "name": "NVIDIA Fake 0",
        "capability": [9, 0],
        "driver_cuda": [13, 0],
        "num_sms": 132,
        "shared_memory_per_block_bytes": 232448,
        "shared_memory_per_sm_bytes": 233472,
        "registers_per_sm": 65536,
        "l2_bytes": 62914560,
        "memory_bytes": 141 << 30,
    }


def test_the_current_device_is_the_one_asked_about(driver_folder: Path) -> None:
    """Not device 0: a rank that chose device 1 would be given kernels for another card."""
    made_current = "fake.fake_driver_make_current(1)"
    assert ask(driver_folder, "find_device().name", before=made_current) == "NVIDIA Fake 1"
    assert ask(driver_folder, "find_device().name") == "NVIDIA Fake 0"


def test_asking_makes_no_context(driver_folder: Path) -> None:
    assert ask(driver_folder, "[find_device(1).ordinal, fake.fake_driver_leftovers()]") == [1, 0]


@pytest.mark.parametrize("ordinal", [2, -1])
def test_a_device_that_is_not_visible(driver_folder: Path, ordinal: int) -> None:
    kind, text = ask(driver_folder, f"attempt(lambda: find_device({ordinal}))")
    assert kind == "DeviceMismatch"
    assert f"no device {ordinal}: this process sees 2" in text
    assert "CUDA_VISIBLE_DEVICES" in text


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("no device", "DeviceMismatch", "sees no GPU"),
        ("not initialised", "RuntimeUnfit", "cuInit failed with CUDA_ERROR_NOT_INITIALIZED (3)"),
    ],
)
def test_a_driver_that_does_not_work(driver_folder: Path, fault: str, kind: str, words: str) -> None:
    answer = ask(driver_folder, "attempt(find_device)", fault=fault)
    assert answer[0] == kind
    assert words in answer[1]


def test_an_error_without_a_name_is_told_by_number(driver_folder: Path) -> None:
    kind, text = ask(driver_folder, "attempt(lambda: Driver().attribute(9999, 0))")
    assert (kind, "an unknown error (1)" in text) == ("RuntimeUnfit", True)


def test_a_function_that_the_driver_lacks(driver_folder: Path) -> None:
    kind, text = ask(driver_folder, "attempt(lambda: Driver().call('cuNotYetInvented'))")
    assert (kind, "has no cuNotYetInvented" in text) == ("RuntimeUnfit", True)


def test_max_active_clusters_and_the_layout_of_the_launch_structures(driver_folder: Path) -> None:
    """The fake driver reads the structures as C lays them out, and answers nothing for any other layout."""
    answer = ask(driver_folder, "max_active_clusters(0)")
    assert answer == {"1": 132, "2": 66, "4": 30, "8": 15, "16": 7}


def test_counting_clusters_leaves_the_current_device_and_no_module_behind(driver_folder: Path) -> None:
    """C11: the process computes on device 1 while device 0 is measured."""
    expression = "[max_active_clusters(0)[1], Driver().current_ordinal(), fake.fake_driver_leftovers()]"
    assert ask(driver_folder, expression, before="fake.fake_driver_make_current(1)") == [132, 1, 100]


def test_a_cluster_size_that_the_card_refuses_is_zero(driver_folder: Path) -> None:
    assert ask(driver_folder, "max_active_clusters(0)", fault="portable only")["16"] == 0


def test_a_card_without_clusters_has_none(driver_folder: Path) -> None:
    assert ask(driver_folder, "max_active_clusters(1)") == {}


def test_a_measured_profile_has_a_source_for_every_fact(driver_folder: Path) -> None:
    expression = "measured_profile(0, name='mine', date='2026-01-31').to_json()"
    answer = ask(driver_folder, expression)
    assert (answer["name"], answer["arch"]) == ("mine", "sm_90a")
    assert {fact["source"] for fact in answer["facts"].values()} == {
        "measured on the card, driver for CUDA 13.0, 2026-01-31"
    }
    assert answer["facts"]["max_active_clusters"]["value"]["4"] == 30
    assert answer["facts"]["driver_names"]["value"] == ["NVIDIA Fake 0"]


def test_a_card_without_clusters_gets_a_profile_without_that_fact(driver_folder: Path) -> None:
    answer = ask(driver_folder, "measured_profile(1, name='mine', date='2026-01-31').to_json()")
    assert answer["arch"] == "sm_89"
    assert "max_active_clusters" not in answer["facts"]


def test_a_card_that_nothing_is_built_for_is_named() -> None:
    from dataclasses import replace

    with pytest.raises(TargetError, match="sm_70"):
        describe(replace(H200, capability=(7, 0)), {}, name="volta", date="2026-01-31")


@pytest.mark.parametrize(
    ("text", "release"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024\n"
            "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n",
            "550.144.03",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)\n"
            "GCC version:  gcc version 13.3.0\n",
            "580.65.06",
        ),
        ("something else altogether 1.2\n", None),
        (None, None),
    ],
)
def test_the_release_of_the_driver_is_read_where_it_is_told(tmp_path: Path, text: str | None, release: str) -> None:
    """People know their driver as 550.144.03, not as 'CUDA 12.4'."""
    if text is not None:
        (tmp_path / "version").write_text(text)
    assert driver_release(tmp_path / "version") == release


def test_a_machine_without_a_driver(tmp_path: Path) -> None:
    """Stands in for the machines of CI: what is there cannot be loaded as a library."""
    (tmp_path / "libcuda.so.1").write_bytes(b"not a library")
    code = PREPARE.replace('fake = ctypes.CDLL("libcuda.so.1")', "") + "print(json.dumps(attempt(find_device)))"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    kind, text = json.loads(done.stdout)
    assert (kind, "no NVIDIA driver" in text) == ("RuntimeUnfit", True)
