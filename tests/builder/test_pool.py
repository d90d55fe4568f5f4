"""Whatever a kernel does to its process costs its own key and no other. Real compiler, no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelforge.builder.job import OBJECT_FILE, Limits
from kernelforge.device import DeviceProfile
from tests.builder.compiling import compile_all, requests_of

pytestmark = pytest.mark.slow

LIMITS = Limits(seconds=4.0, memory_bytes=1 << 30)

_FAULTY = (
    "Raises",
    "RaisesWhileTracing",
    "Aborts",
    "AbortsInPasses",
    "Exits",
    "ExitsHard",
    "Hangs",
    "HangsOnPurpose",
    "EatsMemory",
    "FillsTheDisk",
    "AsksDriver",
    "AsksProfile",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Good and faulty kernels compiled together: case C4, and its whole kind."""
    from kernelforge.device import Fact

    h200 = DeviceProfile("h200-test", "sm_90a", {"num_sms": Fact(132, "made up for a test")})
    folder = tmp_path_factory.mktemp("pool")
    return compile_all(requests_of("Copy", "Untidy", "CrashesOnce", *_FAULTY), [h200], folder, limits=LIMITS)


def test_faulty_kernels_fail_and_others_are_built(results: dict) -> None:
    failed = {name for (name, _), one in results.items() if one.failure is not None}
    built = {name for (name, _), one in results.items() if one.facts is not None}
    assert failed == set(_FAULTY)
    assert built == {"Copy", "Untidy", "CrashesOnce"}


@pytest.mark.parametrize(
    ("name", "phase", "message", "signal", "limit"),
    [
        ("Raises", "trace", "ValueError: no kernel for width 32", "", ""),
        ("RaisesWhileTracing", "trace", "no_such_attribute", "", ""),
        ("Aborts", "trace", "ended with SIGABRT and left no result, in two tries", "SIGABRT", ""),
        ("AbortsInPasses", "compile", "ended with SIGABRT", "SIGABRT", ""),
        ("Exits", "trace", "SystemExit", "", ""),
        ("ExitsHard", "trace", "exit code 0 and left no result, in two tries", "", ""),
        ("Hangs", "trace", "took longer than the limit of 4 s", "SIGKILL", "seconds"),
        ("HangsOnPurpose", "trace", "took longer than the limit of 4 s", "SIGKILL", "seconds"),
        ("EatsMemory", "trace", "took more memory than the limit of 1,024 MiB", "SIGKILL", "memory"),
        ("FillsTheDisk", "trace", "OSError", "", ""),
        ("AsksDriver", "trace", "asks the driver for max_active_clusters", "", ""),
        ("AsksProfile", "trace", "reads self.device.num_sms while it is compiled", "", ""),
    ],
)
def test_a_failure_says_what_happened(
    results: dict, name: str, phase: str, message: str, signal: str, limit: str
) -> None:
    failure = results[name, "sm_90a"].failure
    assert message in failure.message
    assert (failure.phase, failure.signal, failure.limit) == (phase, signal, limit)


@pytest.mark.parametrize(
    ("name", "tries"), [("CrashesOnce", 2), ("Aborts", 2), ("Raises", 1), ("Hangs", 1), ("EatsMemory", 1)]
)
def test_only_a_crash_is_tried_again(results: dict, name: str, tries: int) -> None:
    folder = results[name, "sm_90a"].folder
    assert len(list(folder.parent.glob(f"kf_{name}_*"))) == tries


@pytest.mark.parametrize(
    ("name", "file", "code"),
    [
        ("Raises", "kernel_family.py", "raise ValueError"),
        ("RaisesWhileTracing", "kernel_family_device.py", "no_such_attribute"),
        ("AsksDriver", "kernel_family.py", "HardwareInfo()"),
        ("AsksProfile", "kernel_family.py", "self.device.num_sms"),
    ],
)
def test_a_failure_names_the_line_of_the_kernels_source(results: dict, name: str, file: str, code: str) -> None:
    path, _, line = results[name, "sm_90a"].failure.source.rpartition(":")
    assert Path(path).name == file
    assert code in Path(path).read_text().splitlines()[int(line) - 1]


def test_a_crash_leaves_its_python_lines_in_the_log(results: dict) -> None:
    assert "kernel_family.py" in results["Aborts", "sm_90a"].failure.log_tail


def test_a_failed_key_leaves_no_object(results: dict) -> None:
    for name in _FAULTY:
        assert not (results[name, "sm_90a"].folder / OBJECT_FILE).exists()


def test_a_kernel_that_prints_and_changes_its_process_disturbs_nobody(results: dict) -> None:
    """Its output goes to its log, and the working folder and environment of this process are as before."""
    assert "CUTE_DSL_KEEP_PTX" not in os.environ
    assert "a kernel that prints" in (results["Untidy", "sm_90a"].folder / "log.txt").read_text()


def test_facts_are_those_of_the_image(results: dict) -> None:
    facts = results["Copy", "sm_90a"].facts
    assert facts.ptxas.startswith("13.")
    assert 0 < facts.registers <= 255
    assert facts.spill_bytes == 0
    assert facts.code_bytes > 0
    assert facts.seconds > 0
    assert "TVMFFIEnvGetStream" in facts.undefined


def test_two_architectures_are_compiled_as_asked(
    tmp_path: Path, h200: DeviceProfile, b200: DeviceProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C1: a third architecture in the environment must not reach any of them; the images themselves tell."""
    from kernelforge.builder.cubin import read_cubin

    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_80")
    results = compile_all(requests_of("Copy"), [h200, b200], tmp_path)
    found = {arch: read_cubin((one.folder / "image.cubin").read_bytes()).arch for (_, arch), one in results.items()}
    assert found == {"sm_90a": "sm_90a", "sm_100a": "sm_100a"}


def test_the_flavour_is_pinned(tmp_path: Path, h200: DeviceProfile) -> None:
    """With both flavours installed the compiler takes the newest: cu12 must be had when it is asked for."""
    results = compile_all(requests_of("Copy"), [h200], tmp_path, cuda="cu12")
    assert results["Copy", "sm_90a"].facts.ptxas.startswith("12")


def test_objects_do_not_depend_on_workers_folders_or_the_environment(
    tmp_path: Path, h200: DeviceProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases B3, B4 and B7: same key, same bytes, whoever compiles it where."""

    def objects(folder: Path, workers: int) -> dict:
        folder.mkdir()
        results = compile_all(requests_of("Copy", "Untidy", widths=(64,)), [h200], folder, workers=workers)
        return {name: (one.folder / OBJECT_FILE).read_bytes() for (name, _), one in results.items()}

    first = objects(tmp_path / "a", 1)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("POD_IP", "10.0.0.1")
    monkeypatch.chdir(tmp_path)
    assert objects(tmp_path / "an-other-folder", 16) == first


def test_templates_end_with_the_build(tmp_path: Path) -> None:
    """A build that is killed with SIGKILL leaves no compiling process behind."""
    script = """
import sys, time
from pathlib import Path
from tests.builder.compiling import compile_all, requests_of
from kernelforge.device import DeviceProfile, Fact
h200 = DeviceProfile("h200-test", "sm_90a", {"num_sms": Fact(132, "made up for a test")})
print("started", flush=True)
compile_all(requests_of("HangsOnPurpose"), [h200], Path(sys.argv[1]))
"""
    build = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path.cwd())
    assert build.stdout is not None
    assert build.stdout.readline() == b"started\n"
    wait_until(lambda: list(tmp_path.glob("kf_HangsOnPurpose_*")), "the hanging compile starts")
    build.kill()
    build.wait()
    build.stdout.close()
    wait_until(lambda: not processes_in(tmp_path), "all of its processes are gone")


def processes_in(folder: Path) -> list[str]:
    """Command lines of the processes whose environment names this folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                environment = (process / "environ").read_bytes()
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue
            if f"HOME={folder}".encode() in environment.split(b"\0"):
                found.append(process.name)
    return found


def wait_until(claim, what: str, limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not claim():
        assert time.monotonic() < end, f"not so after {limit_s} s: {what}"
        time.sleep(0.05)
