"""How many compiles a build runs at a time: made-up trees of control groups, as containers see them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelforge.cli.cgroup import cpu_limit, memory_limit
from kernelforge.cli.jobs import default_jobs

GIB = 1 << 30
NO_LIMIT_OF_VERSION_1 = str((1 << 63) - 4096)
Tree = Callable[..., Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """``tree(membership, {file below sys/fs/cgroup: text})`` -> the root of it."""

    def make(membership: str | bytes, files: dict[str, str | bytes]) -> Path:
        paths = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
        for name, text in {"proc/self/cgroup": membership, **paths}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path

    return make


@pytest.fixture
def large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 cores and 256 GiB."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 256 * GIB // 4096, "SC_PAGE_SIZE": 4096}.__getitem__)


@pytest.mark.parametrize(
    ("own", "parent", "top", "cores"),
    [
        ("800000 100000", "max 100000", "max 100000", 8),
        ("800000 100000", "300000 100000", "max 100000", 3),
        ("200000 100000", "300000 100000", "400000 100000", 2),
        ("max 100000", "max 100000", "600000 100000", 6),
        ("max 100000", "max 100000", "max 100000", None),
        ("150000 100000", "max 100000", "max 100000", 2),
        ("1000 100000", "max 100000", "max 100000", 1),
        ("100000 50000", "max 100000", "max 100000", 2),
    ],
)
def test_the_smallest_quota_on_the_way_up_counts(
    tree: Tree, own: str, parent: str, top: str, cores: int | None
) -> None:
    root = tree(
        "0::/pods/build\n", {"pods/build/cpu.max": f"{own}\n", "pods/cpu.max": f"{parent}\n", "cpu.max": f"{top}\n"}
    )
    assert cpu_limit(root) == cores


@pytest.mark.parametrize(
    ("own", "parent", "limit"),
    [
        ("max", f"{2 * GIB}", 2 * GIB),
        (f"{GIB}", f"{2 * GIB}", GIB),
        (f"{3 * GIB}", "max", 3 * GIB),
        ("max", "max", None),
    ],
)
def test_the_smallest_memory_limit_on_the_way_up_counts(tree: Tree, own: str, parent: str, limit: int | None) -> None:
    root = tree("0::/pods/build\n", {"pods/build/memory.max": f"{own}\n", "pods/memory.max": f"{parent}\n"})
    assert memory_limit(root) == limit


@pytest.mark.parametrize("path", ["/", "/../outside", "/docker/not-mounted-here"])
def test_a_container_finds_its_group_at_the_top(tree: Tree, path: str) -> None:
    root = tree(f"0::{path}\n", {"cpu.max": "400000 100000\n", "memory.max": f"{GIB}\n", "../outside/cpu.max": "1 1\n"})
    assert (cpu_limit(root), memory_limit(root)) == (4, GIB)


def test_a_group_beside_ours_does_not_count(tree: Tree) -> None:
    root = tree("0::/pods/build\n", {"pods/other/cpu.max": "100000 100000\n", "pods/build/cpu.max": "500000 100000\n"})
    assert cpu_limit(root) == 5


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
def test_version_1(tree: Tree, mount: str) -> None:
    root = tree(
        "5:memory:/pods/build\n4:cpu,cpuacct:/pods/build\n1:name=systemd:/elsewhere\n0::/\n",
        {
            f"{mount}/pods/build/cpu.cfs_quota_us": "-1\n",
            f"{mount}/pods/build/cpu.cfs_period_us": "100000\n",
            f"{mount}/pods/cpu.cfs_quota_us": "250000\n",
            f"{mount}/pods/cpu.cfs_period_us": "100000\n",
            f"{mount}/cpu.cfs_quota_us": "-1\n",
            f"{mount}/cpu.cfs_period_us": "100000\n",
            "memory/pods/build/memory.limit_in_bytes": f"{4 * GIB}\n",
            "memory/memory.limit_in_bytes": f"{NO_LIMIT_OF_VERSION_1}\n",
        },
    )
    assert (cpu_limit(root), memory_limit(root)) == (3, 4 * GIB)


def test_version_1_without_limits(tree: Tree) -> None:
    root = tree(
        "2:memory:/\n1:cpu:/\n",
        {
            "cpu/cpu.cfs_quota_us": "-1\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": f"{NO_LIMIT_OF_VERSION_1}\n",
        },
    )
    assert (cpu_limit(root), memory_limit(root)) == (None, None)


@pytest.mark.parametrize(
    "text",
    ["", "\n", "much", "100000", "0 100000", "100000 0", "-5 100000", "1e5 100000", "1 2 3", b"\xff\xfe\0", "9" * 5000],
)
def test_odd_files_limit_nothing(tree: Tree, text: str | bytes) -> None:
    root = tree("0::/\n", {"cpu.max": text, "memory.max": b"" if isinstance(text, str) and text[:1] == "1" else text})
    assert (cpu_limit(root), memory_limit(root)) == (None, None)


@pytest.mark.parametrize("membership", ["", "no colons\n", "0::\n", "0::/\0\n", ":::::\n", "0::" + "/deep" * 1000])
def test_odd_memberships_raise_nothing(tree: Tree, membership: str) -> None:
    root = tree(membership, {"unrelated": ""})
    assert (cpu_limit(root), memory_limit(root)) == (None, None)


def test_an_odd_file_leaves_the_other_limits_alone(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kernelforge.cli.cgroup")
    root = tree("0::/pods\n", {"pods/cpu.max": "much 100000\n", "cpu.max": "200000 100000\n"})
    (root / "sys/fs/cgroup/memory.max").mkdir()
    assert (cpu_limit(root), memory_limit(root)) == (2, None)
    assert "'much' is no limit" in caplog.text
    assert "memory.max cannot be read" in caplog.text


def test_a_folder_name_of_any_bytes_leaves_the_other_lines_alone(tree: Tree) -> None:
    root = tree(b"1:cpu:/\xff\xfe\n0::/\n", {"cpu.max": "200000 100000\n"})
    assert cpu_limit(root) == 2


def test_a_machine_without_control_groups(tmp_path: Path) -> None:
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (None, None)


@pytest.mark.usefixtures("large_machine")
@pytest.mark.parametrize(
    ("cpu", "memory", "targets", "jobs"),
    [
        ("max 100000", "max", 1, 64),
        ("400000 100000", "max", 1, 4),
        ("150000 100000", "max", 1, 2),
        ("max 100000", f"{GIB}", 1, 1),
        ("max 100000", f"{2 * GIB}", 1, 3),
        ("max 100000", f"{2 * GIB}", 2, 2),
        ("max 100000", "4096", 3, 1),
        ("200000 100000", f"{16 * GIB}", 1, 2),
    ],
)
def test_jobs_by_cores_and_memory(tree: Tree, cpu: str, memory: str, targets: int, jobs: int) -> None:
    root = tree("0::/\n", {"cpu.max": f"{cpu}\n", "memory.max": f"{memory}\n"})
    assert default_jobs(targets, root) == jobs


@pytest.mark.usefixtures("large_machine")
def test_an_affinity_mask_smaller_than_the_quota(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7})
    assert default_jobs(1, tree("0::/\n", {"cpu.max": "800000 100000\n"})) == 2


def test_a_machine_smaller_than_its_limits(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 2 * GIB // 4096, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert default_jobs(1, tmp_path) == 3
    assert default_jobs(1, tree("0::/\n", {"memory.max": f"{64 * GIB}\n"})) == 3


def test_this_machine() -> None:
    assert 1 <= default_jobs() <= len(os.sched_getaffinity(0))
