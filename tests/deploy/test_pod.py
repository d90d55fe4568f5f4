"""The Kubernetes example: what it promises, and its commands against a real store."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kernelforge.digest import Digest
from kernelforge.store.blobs import put_blob
from kernelforge.store.locate import open_store
from tests.deploy.pod_file import EXAMPLE_PIN, Mapped, Step, pod_spec, run, steps
from tests.loader.fake_release import compile_c, compile_pack
from tests.loader.test_device_in_use import SYMBOLS, two_cards
from tests.seaweed import SeaweedServer

FAKE_DRIVER = Path(__file__).parents[1] / "loader" / "fake_driver.c"
OTHER_PIN = f"sha256:{'1' * 64}"


class TestFile:
    """What can be judged without running it."""

    def test_the_engine_mounts_lockfile_and_packs_read_only(self) -> None:
        (engine,) = pod_spec()["containers"]
        assert {mount["name"]: mount["readOnly"] for mount in engine["volumeMounts"]} == {"lock": True, "kernels": True}

    def test_nothing_but_the_init_container_has_credentials_or_a_store(self) -> None:
        (init,), (engine,) = pod_spec()["initContainers"], pod_spec()["containers"]
        assert "envFrom" in init
        assert "envFrom" not in engine
        assert "KERNELFORGE_STORE" not in steps()["load"].environment

    def test_both_containers_pin_one_digest_and_one_card(self) -> None:
        """Readiness that asks for another lockfile than was pulled would never turn, or prove nothing."""
        pull, load = steps()["pull"].environment, steps()["load"].environment
        assert pull["KERNELFORGE_PIN"] == load["KERNELFORGE_PIN"] == EXAMPLE_PIN
        assert pull["KERNELFORGE_DEVICE"] == load["KERNELFORGE_DEVICE"]
        assert pull["KERNELFORGE_CACHE"] == load["KERNELFORGE_MOUNTS"]

    def test_the_folder_of_packs_is_inside_the_volume_and_not_the_volume(self) -> None:
        """An emptyDir has mode 777, and the cache refuses a folder that others can write to."""
        (init,) = pod_spec()["initContainers"]
        (volume,) = (mount["mountPath"] for mount in init["volumeMounts"] if mount["name"] == "kernels")
        assert Path(steps()["pull"].environment["KERNELFORGE_CACHE"]).parent == Path(volume)

    def test_all_containers_are_one_unprivileged_user_on_a_read_only_root(self) -> None:
        spec = pod_spec()
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] > 0
        for container in (*spec["initContainers"], *spec["containers"]):
            security = container["securityContext"]
            assert "runAsUser" not in security, "another user could not read the folder"
            assert security["readOnlyRootFilesystem"]
            assert not security["allowPrivilegeEscalation"]
            assert security["capabilities"] == {"drop": ["ALL"]}

    def test_every_volume_that_is_mounted_exists_and_the_other_way_round(self) -> None:
        spec = pod_spec()
        containers = (*spec["initContainers"], *spec["containers"])
        mounted = {mount["name"] for container in containers for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}


@dataclass(frozen=True)
class Pod:
    """One pod's folders, a store that has its pack, and the strings of the file as they are here."""

    folder: Path
    store: str
    pin: str
    credentials: dict[str, str]

    @property
    def mapped(self) -> Mapped:
        return Mapped(
            {
                "s3://kernels/prod?endpoint=https://s3.example": self.store,
                "/lock/qwen3-8b.lock.json": str(self.folder / "lock" / "qwen3-8b.lock.json"),
                "/kernels/qwen3-8b": str(self.folder / "kernels" / "qwen3-8b"),
                EXAMPLE_PIN: self.pin,
                "h200-sxm": "hopper",
            }
        )

    @property
    def packs(self) -> list[Path]:
        return sorted((self.folder / "kernels").rglob("*.so"))

    def run(
        self, name: str, *, pin: str | None = None, isolated: tuple[str, ...] = (), **more: str
    ) -> subprocess.CompletedProcess[str]:
        mapped = Mapped({**self.mapped.replacements, EXAMPLE_PIN: pin or self.pin})
        credentials = self.credentials if name == "pull" else {}
        return run(steps()[name], mapped, more={**credentials, **more}, isolated=isolated)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    compile_c(FAKE_DRIVER, folder / "libcuda.so.1")
    return folder


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    arches = {"hopper": "sm_90a", "ada": "sm_89"}
    folders = {name: tmp_path_factory.mktemp(name) for name in arches}
    return {name: compile_pack(folders[name], SYMBOLS[name], arch=arch) for name, arch in arches.items()}


@pytest.mark.slow
class TestSteps:
    """The commands of the file, one process each."""

    @pytest.fixture
    def pod(
        self,
        seaweed_server: SeaweedServer,
        libraries: dict[str, bytes],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Pod]:
        for name, value in seaweed_server.environment().items():
            monkeypatch.setenv(name, value)
        location = seaweed_server.location(tmp_path.name)
        store = open_store(location)
        for library in libraries.values():
            put_blob(store, library, compress=False)
        lock = two_cards(libraries).to_bytes()
        (tmp_path / "lock").mkdir()
        (tmp_path / "lock" / "qwen3-8b.lock.json").write_bytes(lock)
        (tmp_path / "kernels").mkdir()
        (tmp_path / "kernels").chmod(0o777)  # as Kubernetes makes an emptyDir
        yield Pod(tmp_path, location, str(Digest.of(lock)), seaweed_server.environment("reader"))
        for folder, _, _ in os.walk(tmp_path):
            os.chmod(folder, 0o755)

    def test_pull_then_ready_then_load_without_network_from_a_read_only_volume(self, pod: Pod, driver: Path) -> None:
        assert pod.run("ready").returncode == 1, "ready before anything was pulled"
        pulled = pod.run("pull")
        assert pulled.returncode == 0, pulled.stderr
        assert len(pod.packs) == 1, "only the pack of its own card"
        make_read_only(pod.folder / "kernels")
        before = picture(pod.folder)
        ready = pod.run("ready", isolated=without_network(pod))
        assert ready.returncode == 0, ready.stdout + ready.stderr
        loaded = pod.run("load", isolated=without_network(pod), LD_LIBRARY_PATH=str(driver))
        assert loaded.returncode == 0, loaded.stderr
        families = {family.name: family for family in text_string_to_metric_families(loaded.stdout)}
        assert families["kernelforge_kernels"].samples[0].value == 1
        assert families["kernelforge_release"].samples[0].labels["pack_source"] == "mount"
        assert picture(pod.folder) == before

    def test_the_volume_of_these_tests_is_read_only(self, pod: Pod) -> None:
        """Keeps the test above honest, which says that nothing is written."""
        isolated = without_network(pod)
        if not isolated:
            pytest.skip("this machine does not allow it")
        write = Step(("python", "-c", "open('/kernels/qwen3-8b', 'w')"), {})
        assert "Read-only file system" in run(write, pod.mapped, isolated=isolated).stderr

    def test_pulling_again_after_a_restart_of_the_container_is_no_error(self, pod: Pod) -> None:
        assert [pod.run("pull").returncode for _ in range(2)] == [0, 0]

    def test_another_lockfile_than_the_pinned_one_goes_nowhere(self, pod: Pod, driver: Path) -> None:
        """Somebody changed the ConfigMap."""
        assert pod.run("pull").returncode == 0
        for name in ("pull", "ready", "load"):
            ran = pod.run(name, pin=OTHER_PIN, LD_LIBRARY_PATH=str(driver))
            assert ran.returncode != 0, name
            assert OTHER_PIN in ran.stdout + ran.stderr

    def test_a_pack_that_rots_makes_the_pod_unready_and_is_never_opened(self, pod: Pod, driver: Path) -> None:
        assert pod.run("pull").returncode == 0
        (pack,) = pod.packs
        damaged = bytearray(pack.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        pack.write_bytes(damaged)
        ready = pod.run("ready")
        assert ready.returncode == 1
        assert "corrupt-blob" in ready.stdout
        trace = pod.folder / "opened"
        loaded = pod.run("load", LD_LIBRARY_PATH=str(driver), FAKE_PACK_TRACE=str(trace))
        assert loaded.returncode != 0
        assert "PackCorrupt" in loaded.stderr
        assert not trace.exists()

    def test_a_store_that_is_down_fails_the_init_container(self, pod: Pod) -> None:
        """So that Kubernetes retries it, and no engine starts without kernels."""
        away = Pod(pod.folder, "s3://kernels/prod?endpoint=http://127.0.0.1:9", pod.pin, pod.credentials)
        ran = away.run("pull")
        assert ran.returncode == 3, ran.stderr
        assert not pod.packs


def make_read_only(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def picture(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


def without_network(pod: Pod) -> tuple[str, ...]:
    """A command in front that takes the network away and mounts the volume read-only, where this machine allows it."""
    unshare = shutil.which("unshare")
    if os.geteuid() != 0 or unshare is None or subprocess.run([unshare, "--net", "--mount", "true"]).returncode != 0:
        return ()
    volume = pod.folder / "kernels"
    mount = shutil.which("mount")
    script = f'{mount} --bind {volume} {volume} && {mount} -o remount,bind,ro {volume} && exec "$@"'
    return (unshare, "--net", "--mount", "/bin/sh", "-c", script, "sh")
