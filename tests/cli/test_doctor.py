"""The command doctor: what works on this machine, tried for real."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kernelforge.cli.doctor as doctor
from kernelforge.cli.doctor_check import Check, Status
from kernelforge.cli.doctor_store import ROLES, check_store
from kernelforge.cli.doctor_surroundings import check_gpu, check_s3_client
from kernelforge.cli.doctor_toolchain import check_compiler, check_linker_and_call_interface, check_python
from kernelforge.cli.options import opened_store
from kernelforge.cli.profile_yaml import profile_yaml
from kernelforge.device import DeviceProfile, Fact
from kernelforge.errors import StoreDenied
from kernelforge.manifest import load_profile
from kernelforge.store.file import FileStore
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import MARKER
from kernelforge.store.memory import MemoryStore
from tests.cli.command import run
from tests.cli.in_process import Kernelforge
from tests.loader.fake_release import compile_c
from tests.seaweed import BUCKET, SeaweedServer

FAKE_DRIVER = Path(__file__).parents[1] / "loader" / "fake_driver.c"
NO_DRIVER = shutil.which("nvidia-smi") is None


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a CUDA driver that answers like one with an H200."""
    folder = tmp_path_factory.mktemp("driver")
    compile_c(FAKE_DRIVER, folder / "libcuda.so.1")
    return str(folder)


@pytest.mark.slow
def test_everything_that_a_build_needs_works_here(tmp_path: Path) -> None:
    ran = run("doctor", "--store", "file:store", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    document = json.loads(ran.out)
    assert document["schema"] == "kernelforge.doctor/1"
    checks = {check["name"]: check for check in document["checks"]}
    assert list(checks)[:8] == ["python", "compiler", "linker", "tvm-ffi", "gpu", "s3 client", "store", "store: read"]
    for name in ("python", "compiler", "linker", "tvm-ffi", "s3 client", "store"):
        assert checks[name]["status"] == "ok", checks[name]
    assert "compiled a kernel" in checks["compiler"]["found"]
    assert "opened and called a library" in checks["tvm-ffi"]["found"]


@pytest.mark.slow
def test_a_pod_without_the_build_packages_is_warned_and_not_failed(tmp_path: Path) -> None:
    """Nothing is wrong with an image that has only the base install; the fix says how to build there."""
    hidden = (
        "import importlib.metadata as metadata, sys\n"
        "known = metadata.distribution\n"
        "def distribution(name):\n"
        "    if name in ('nvidia-cutlass-dsl', 'ziglang'):\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return known(name)\n"
        "metadata.distribution = distribution\n"
        "from kernelforge.cli.main import main\n"
        "main(['doctor', '--json'])\n"
    )
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0, done.stderr
    for name in ("compiler", "linker"):
        assert checks[name]["status"] == "warning"
        assert "kernelforge[build]" in checks[name]["fix"]
    assert "imported" in checks["tvm-ffi"]["found"]


@pytest.mark.slow
def test_a_compiler_that_cannot_run_is_a_failure_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed and broken is worse than absent: a CI job must go red here and not in the middle of a build."""
    monkeypatch.setattr("kernelforge.cli.doctor_toolchain._COMPILE", "raise OSError('no libstdc++ of that version')")
    check = check_compiler()
    assert check.status is Status.FAILED
    assert "no libstdc++ of that version" in check.found
    assert check.fix


@pytest.mark.slow
def test_a_compiler_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelforge.cli.doctor_toolchain._COMPILE", "import time; time.sleep(600)")
    monkeypatch.setattr("kernelforge.cli.doctor_toolchain._LIMIT_S", 0.5)
    check = check_compiler()
    assert check.status is Status.FAILED
    assert "did not end within 0.5 s" in check.found


def test_a_linker_that_fails_is_told_and_tvm_ffi_is_still_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelforge.cli.doctor_toolchain._OBJECT_SOURCE", "this is no C")
    linker, call_interface = check_linker_and_call_interface()
    assert linker.status is Status.FAILED
    assert "the C compiler of ziglang ended with 1" in linker.found
    assert call_interface.status is Status.OK


def test_an_untested_python_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_python().status is Status.OK
    monkeypatch.setattr(sys, "version_info", (3, 9, 0, "final", 0))
    assert check_python().status is Status.WARNING
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    assert check_python().status is Status.WARNING


@pytest.mark.skipif(not NO_DRIVER, reason="this machine has a GPU")
def test_no_gpu_is_no_fault_of_a_build_machine() -> None:
    check = check_gpu()
    assert check.status is Status.WARNING
    assert check.fix.startswith("nothing, to build")


def test_a_missing_s3_client_matters_only_for_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise doctor_metadata.PackageNotFoundError(name)

    from kernelforge.cli.doctor_surroundings import metadata as doctor_metadata

    monkeypatch.setattr(doctor_metadata, "version", absent)
    assert check_s3_client(is_needed=False).status is Status.WARNING
    assert check_s3_client(is_needed=True).status is Status.FAILED


def statuses(store: PruneStore, role: str) -> dict[str, str]:
    return {check.name.removeprefix("store: "): check.status.value for check in check_store(store, role)}


class TestStore:
    """What a store can do is found out in ``tests/store/test_probe.py``; here, what that means for whom."""

    @pytest.mark.parametrize("role", ROLES)
    def test_a_folder_serves_every_role_and_nothing_is_left_in_it(self, tmp_path: Path, role: str) -> None:
        store = FileStore(tmp_path / "store")
        checks = list(check_store(store, role))
        assert {check.status for check in checks} == {Status.OK}, checks
        assert len(checks) == (2 if role == "pod" else 11)
        assert list(store.names()) == []

    def test_a_pod_writes_nothing(self) -> None:
        store = MemoryStore()
        list(check_store(store, "pod"))
        assert store.traffic.puts == store.traffic.deletes == store.traffic.lists == 0

    @pytest.mark.parametrize(
        ("role", "failed", "warned"),
        [
            ("pod", set(), set()),
            ("ci", set(), {"replace if unchanged", "delete if unchanged", "delete"}),
            ("release", {"replace if unchanged"}, {"delete if unchanged", "delete"}),
            ("gc", {"replace if unchanged", "delete if unchanged", "delete"}, set()),
        ],
    )
    def test_what_only_other_roles_need_is_a_warning(self, role: str, failed: set[str], warned: set[str]) -> None:
        """Credentials that may create and nothing else are right in CI, and of no use to those who release."""
        found = statuses(CreateOnly(), role)
        assert {name for name, status in found.items() if status == "failed"} == failed
        assert {name for name, status in found.items() if status == "warning"} == warned

    def test_the_commands_that_cannot_work_are_named(self) -> None:
        checks = {check.name: check for check in check_store(CreateOnly(), "ci")}
        assert "promote" in checks["store: replace if unchanged"].stops
        assert "gc --run" in checks["store: delete"].stops
        assert checks["store: create"].stops == ()

    @pytest.mark.parametrize("role", ["ci", "release", "gc"])
    def test_a_condition_that_is_ignored_is_a_failure_for_all(self, role: str) -> None:
        """It would let two builds overwrite each other, and every other check would pass."""

        class Overwrites(MemoryStore):
            def create(self, name: str, data: bytes) -> bool:
                self.delete(name)
                return super().create(name, data)

        checks = {check.name: check for check in check_store(Overwrites(), role)}
        assert checks["store: create only once"].status is Status.FAILED
        assert "If-None-Match" in checks["store: create only once"].found
        assert "build" in checks["store: create only once"].stops

    def test_a_place_that_cannot_be_written_fails_with_what_to_do(self, tmp_path: Path) -> None:
        (tmp_path / "taken").write_text("a file")
        failed = [check for check in check_store(FileStore(tmp_path / "taken"), "ci") if check.status is Status.FAILED]
        assert failed
        assert "taken" in failed[0].found
        assert failed[0].fix

    def test_a_store_of_another_format_is_not_written(self) -> None:
        store = MemoryStore()
        store.create(MARKER, b'{"schema":"kernelforge.store/2"}\n')
        (check,) = check_store(store, "ci")
        assert check.status is Status.FAILED
        assert "kernelforge.store/2" in check.found
        assert list(store.names()) == [MARKER]

    def test_a_real_bucket_and_one_that_may_only_be_read(
        self, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        location = seaweed_server.location("doctor")
        for name, value in seaweed_server.environment("reader").items():
            monkeypatch.setenv(name, value)
        assert statuses(opened_store(location), "pod") == {"store": "ok", "read": "ok"}
        assert statuses(opened_store(location), "ci") == {"store": "ok", "read": "ok", "create": "failed", "list": "ok"}
        for name, value in seaweed_server.environment("writer").items():
            monkeypatch.setenv(name, value)
        assert set(statuses(opened_store(location), "gc").values()) == {"ok"}
        assert list(opened_store(location).names()) == []
        elsewhere = location.replace(f"//{BUCKET}/", "//no-such-bucket/")
        assert statuses(opened_store(elsewhere), "ci") == {"store": "failed", "read": "failed"}


class CreateOnly(MemoryStore):
    """Like credentials of a CI job: it may read, list and create."""

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        raise StoreDenied("403", hint="ask for more", where=name)

    def delete(self, name: str, *, version: str | None = None) -> None:
        raise StoreDenied("403", hint="ask for more", where=name)


class TestExitCode:
    def test_warnings_are_all_good_and_failures_are_not(
        self, kernelforge: Kernelforge, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        checks = [Check("one", Status.OK, "fine"), Check("two", Status.WARNING, "absent", "install it")]
        monkeypatch.setattr(doctor, "_checks", lambda *_: iter(checks))
        ran = kernelforge("doctor")
        assert ran.code == 0
        assert ran.out.splitlines()[0].split() == ["ok", "one", "fine"]
        assert "to do: install it" in ran.out
        checks.append(Check("three", Status.FAILED, "broken", "repair it"))
        assert kernelforge("doctor").code == 3
        assert kernelforge("doctor", "--json").code == 3


class TestDevice:
    def test_the_profile_is_one_that_a_manifest_can_name(self, driver: str, tmp_path: Path) -> None:
        """Printed, saved and read back: the facts are those of the card, each with its source."""
        ran = run("doctor", "--device", "--name", "fake-0", cwd=tmp_path, LD_LIBRARY_PATH=driver)
        assert ran.code == 0, ran.err
        assert "specs/devices/fake-0.yaml" in ran.err
        (tmp_path / "fake-0.yaml").write_text(ran.out)
        profile = load_profile(tmp_path / "fake-0.yaml")
        assert (profile.name, profile.arch, profile.num_sms) == ("fake-0", "sm_90a", 132)
        assert dict(profile.max_active_clusters) == {"1": 132, "2": 66, "4": 30, "8": 15, "16": 7}
        assert profile.driver_names == ("NVIDIA Fake 0",)
        assert all(fact.source.startswith("measured on the card") for fact in profile.facts.values())

    def test_another_card_and_the_name_by_default(self, driver: str, tmp_path: Path) -> None:
        ran = run("doctor", "--device", "--ordinal", "1", "--json", cwd=tmp_path, LD_LIBRARY_PATH=driver)
        assert ran.code == 0, ran.err
        profile = DeviceProfile.from_json(json.loads(ran.out))
        assert (profile.name, profile.arch, profile.num_sms) == ("fake-1", "sm_89", 142)
        assert "max_active_clusters" not in profile.facts

    def test_clusters_that_the_card_cannot_run_are_left_out(self, driver: str, tmp_path: Path) -> None:
        """The driver says 0 for them, which no profile may hold."""
        environment = {"LD_LIBRARY_PATH": driver, "FAKE_DRIVER": "portable only"}
        ran = run("doctor", "--device", "--name", "fake-0", cwd=tmp_path, **environment)
        (tmp_path / "fake-0.yaml").write_text(ran.out)
        assert "16" not in load_profile(tmp_path / "fake-0.yaml").max_active_clusters

    def test_a_driver_that_sees_no_card(self, driver: str, tmp_path: Path) -> None:
        ran = run("doctor", "--device", cwd=tmp_path, LD_LIBRARY_PATH=driver, FAKE_DRIVER="no device")
        assert ran.code == 3
        assert not ran.out
        assert "no GPU" in ran.err

    @pytest.mark.skipif(not NO_DRIVER, reason="this machine has a GPU")
    def test_no_driver_at_all(self, kernelforge: Kernelforge) -> None:
        """Nothing on stdout: it is meant to be saved as a file."""
        ran = kernelforge("doctor", "--device")
        assert ran.code == 3
        assert not ran.out
        assert "no NVIDIA driver" in ran.err
        assert "hint:" in ran.err

    def test_texts_from_a_driver_cannot_break_the_yaml(self, tmp_path: Path) -> None:
        names = ('NVIDIA "H200": #1', "line\nbreak", "é\\n")
        profile = DeviceProfile("odd", "sm_90a", {"driver_names": Fact(names, 'said "so": [by hand]')})
        (tmp_path / "odd.yaml").write_text(profile_yaml(profile))
        assert load_profile(tmp_path / "odd.yaml") == profile


@pytest.mark.parametrize(
    ("driver_name", "name"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb-hbm3"),
    ],
)
def test_names_of_profiles_are_file_names(driver_name: str, name: str) -> None:
    assert doctor._profile_name(driver_name) == name
