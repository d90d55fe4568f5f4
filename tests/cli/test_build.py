"""The commands plan and build, end to end: real compiler, real stores, real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.lockfile import Lockfile
from kernelforge.store.layout import blob_name
from tests.cli.command import REPOSITORY, Ran, run, write_manifest

pytestmark = pytest.mark.slow

WIDTHS = "{width: {choices: [32, 64, 96]}}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of what a deployment is built from, with a store that has everything: built once."""
    folder = tmp_path_factory.mktemp("project")
    copy_project(folder / "clone")
    first = build(folder / "clone", folder / "store")
    assert first.code == 0, first.err
    (folder / "first.json").write_text(first.out)
    return folder


def copy_project(to: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for part in ("kernelforge", "specs"):
        shutil.copytree(REPOSITORY / part, to / part, ignore=ignored)


def build(clone: Path, store: Path | str, *options: str, **environment: str) -> Ran:
    location = store if isinstance(store, str) else f"file:{store}"
    command = ("build", "specs/deployments/qwen3-8b.yaml", "--store", location, "--json", *options)
    return run(*command, cwd=clone, code_from=clone, **environment)


def lock_of(clone: Path) -> bytes:
    return (clone / "registry/releases/qwen3-8b.lock.json").read_bytes()


def test_the_first_build_makes_both_kernels_for_both_targets(project: Path) -> None:
    report = json.loads((project / "first.json").read_text())
    totals = report["totals"]
    assert totals["keys"] >= 20
    assert totals["hits"] + totals["misses"] + totals["store_errors"] == totals["keys"]
    assert totals["built"] == totals["keys"]
    found = {(entry["kernel"].partition(":")[2], entry["target"].partition("/")[0]) for entry in report["entries"]}
    assert found == {(kernel, arch) for kernel in ("QkNorm", "RmsNorm") for arch in ("sm_90a", "sm_100a")}
    assert all(entry["spill_bytes"] == 0 for entry in report["entries"])


def test_nothing_changed_means_no_compiler_and_no_worker(project: Path, tmp_path: Path) -> None:
    """The second build finds all keys with the compiler made unimportable, and leaves every file alone."""
    before = lock_of(project / "clone")
    for blocked in ("cutlass",):
        (tmp_path / blocked).mkdir()
        (tmp_path / blocked / "__init__.py").write_text("raise ImportError('blocked by a test')")
    again = build(project / "clone", project / "store", PYTHONPATH=f"{tmp_path}:{project / 'clone'}")
    assert again.code == 0, again.err
    assert again.totals["hits"] == again.totals["keys"]
    assert again.totals["built"] == 0
    assert again.report["workers_started"] == 0
    assert again.report["seconds"]["saved"] > 0
    assert lock_of(project / "clone") == before


def test_requests_of_a_build_without_changes_do_not_grow_with_the_keys(project: Path) -> None:
    again = build(project / "clone", project / "store")
    packs = len(again.report["packs"])
    assert again.report["requests"] <= 7 + 2 * packs < again.totals["keys"]


def test_touched_moved_and_cloned_sources_are_hits(project: Path, tmp_path: Path) -> None:
    """Cases B3 and B4: paths, mtimes, HOME, hash seeds and host facts are in no key."""
    moved = tmp_path / "an-other-place"
    copy_project(moved)
    for source in moved.rglob("*.py"):
        os.utime(source, (1, 1))
    found = build(moved, project / "store", HOME="/nonexistent", PYTHONHASHSEED="7", POD_IP="10.9.8.7")
    assert found.totals["hits"] == found.totals["keys"], found.err
    assert lock_of(moved) == lock_of(project / "clone")


def test_one_changed_line_makes_the_keys_of_its_kernel_miss(project: Path, tmp_path: Path) -> None:
    """Case A7: and the report says which source it was."""
    changed = tmp_path / "changed"
    copy_project(changed)
    shutil.copytree(project / "clone/registry", changed / "registry")
    source = changed / "kernelforge/kernels/qk_norm_device.py"
    text = source.read_text()
    line = "self.threads = compile_key.warps_per_block * _WARP_LANES"
    assert line in text
    source.write_text(text.replace(line, "self.threads = _WARP_LANES * compile_key.warps_per_block"))
    plan = run(
        *("plan", "specs/deployments/qwen3-8b.yaml", "--store", f"file:{project / 'store'}", "--json"),
        cwd=changed,
        code_from=changed,
    )
    missed = [entry for entry in plan.report["entries"] if entry["outcome"] == "miss"]
    hit = [entry for entry in plan.report["entries"] if entry["outcome"] == "hit"]
    assert {entry["kernel"].partition(":")[2] for entry in missed} == {"QkNorm"}
    assert {entry["kernel"].partition(":")[2] for entry in hit} == {"RmsNorm"}
    for entry in missed:
        assert entry["reason"] == "source kernelforge.kernels.qk_norm_device:QkNormDevice.__init__ changed"


def test_sources_that_trace_to_the_same_ir_are_not_compiled_again(project: Path, tmp_path: Path) -> None:
    """A helper in another module and a line rewritten: every key misses, and the compiler would be given the same."""
    changed = tmp_path / "changed"
    copy_project(changed)
    shutil.copytree(project / "clone/registry", changed / "registry")
    rows = changed / "kernelforge/kernels/row_device.py"
    start, end = rows.read_text().index("def inverse_rms"), rows.read_text().index("def scale_row")
    helper = rows.read_text()[start:end]
    head = "from typing import Any\n\nfrom cutlass import cute\n\n\n"
    rows.with_name("row_scale_device.py").write_text(head + helper)
    import_it = "from kernelforge.kernels.row_scale_device import inverse_rms  # noqa: F401\n\nELEMENT_TYPES"
    rows.write_text(rows.read_text().replace(helper, "").replace("ELEMENT_TYPES", import_it, 1))

    again = build(changed, project / "store")
    assert again.code == 0, again.err
    assert (again.totals["misses"], again.totals["built"]) == (again.totals["keys"], 0)
    assert all(
        entry["reason"].endswith("it traces to the same IR as in the lockfile") for entry in again.report["entries"]
    )
    assert objects_of(again.report) == objects_of(json.loads((project / "first.json").read_text()))
    after = build(changed, project / "store")
    assert after.totals["hits"] == after.totals["keys"]

    # What is reused is reused for that IR alone.
    rows.write_text(rows.read_text().replace("values * values", "values * values + values"))
    real = build(changed, project / "store")
    assert real.totals["built"] == real.totals["keys"]
    assert not set(objects_of(real.report).values()) & set(objects_of(after.report).values())


def objects_of(report: dict) -> dict[tuple[str, str], str]:
    """Digest of the object by kernel with key, and target."""
    return {
        (f"{entry['kernel']} {sorted(entry['compile_key'].items())}", entry["target"]): entry["object_digest"]
        for entry in report["entries"]
    }


def test_fewer_targets_are_hits(project: Path, tmp_path: Path) -> None:
    """Case H5: an object is for one architecture, so asking for fewer of them finds each."""
    fewer = tmp_path / "fewer"
    copy_project(fewer)
    manifest = fewer / "specs/deployments/qwen3-8b.yaml"
    manifest.write_text(manifest.read_text().replace("targets: [h200-sxm, b200]", "targets: [h200-sxm]"))
    found = build(fewer, project / "store")
    assert found.totals["hits"] == found.totals["keys"] > 0
    assert {entry["target"] for entry in found.report["entries"]} == {"sm_90a/x86_64-linux-gnu/cu13"}


def test_an_empty_store_is_filled_with_the_same_bytes(project: Path, tmp_path: Path) -> None:
    """A lockfile from git and an empty store: everything is built again and git stays clean."""
    clone = tmp_path / "clone"
    copy_project(clone)
    shutil.copytree(project / "clone/registry", clone / "registry")
    again = build(clone, tmp_path / "store", "--jobs", "16")
    assert again.totals["built"] == again.totals["keys"]
    assert {entry["reason"] for entry in again.report["entries"]} == {"the lockfile has it, this store does not"}
    assert lock_of(clone) == lock_of(project / "clone")


def test_the_order_of_the_manifest_does_not_matter(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    copy_project(clone)
    manifest = clone / "specs/deployments/qwen3-8b.yaml"
    head, _, kernels = manifest.read_text().partition("kernels:\n")
    first, second = kernels.split("  - kernel:")[1:]
    manifest.write_text(f"kernels:\n  - kernel:{second}\n  - kernel:{first}\n{head}")
    found = build(clone, project / "store")
    assert found.totals["hits"] == found.totals["keys"], found.err
    assert lock_of(clone) == lock_of(project / "clone")


def test_the_plan_shows_points_and_keys_before_anything_is_built(project: Path) -> None:
    """Case H3: 16,384 points are a handful of keys, and people see both numbers."""
    again = build(project / "clone", project / "store")
    expansions = {
        (each["kernel"].partition(":")[2], each["device"]): (each["points"], each["keys"])
        for each in again.report["expansions"]
    }
    points, keys = expansions["RmsNorm", "h200-sxm"]
    assert points == 16384
    assert keys < 20
    assert f"16,384 -> {keys}" in again.err


def test_the_same_with_an_s3_store(project: Path, seaweed_server) -> None:
    clone, location = project / "clone", seaweed_server.location("build")
    shutil.copytree(clone, project / "s3-clone")
    environment = seaweed_server.environment()
    first = build(project / "s3-clone", location, **environment)
    assert first.code == 0, first.err
    assert first.totals["built"] == first.totals["keys"]
    assert lock_of(project / "s3-clone") == lock_of(clone)
    second = build(project / "s3-clone", location, **environment)
    assert second.totals["hits"] == second.totals["keys"]
    assert second.report["workers_started"] == 0
    shutil.rmtree(project / "s3-clone")


def test_a_failing_kernel_costs_its_own_keys(tmp_path: Path) -> None:
    """Case C4: one that aborts and one that raises among others: those are built, exit 1, no lockfile."""
    manifest = write_manifest(tmp_path, ("Copy", WIDTHS), ("Aborts", "{width: 32}"), ("Raises", "{width: 32}"))
    first = run("build", manifest, "--store", "file:store", "--json", cwd=tmp_path)
    assert first.code == 1
    assert first.totals["built"] == 3
    assert first.totals["failed"] == 2
    assert not (tmp_path / "registry").exists()
    failures = {
        entry["kernel"].partition(":")[2]: entry["failure"] for entry in first.report["entries"] if entry["failure"]
    }
    assert failures["Aborts"]["signal"] == "SIGABRT"
    assert failures["Raises"]["source"].rpartition("/")[2].startswith("kernel_family.py:")
    assert "tests.kernel_family:Raises" in first.err
    assert "width=32" in first.err
    log = tmp_path / "store" / blob_name(Digest.parse(failures["Aborts"]["log"]))
    assert "Fatal Python error: Aborted" in log.read_text(), "whole, for when the machine that built is gone"
    second = run("build", write_manifest(tmp_path, ("Copy", WIDTHS)), "--store", "file:store", "--json", cwd=tmp_path)
    assert second.code == 0
    assert second.totals["reused"] == 3


def test_a_policy_is_about_hits_too_and_lets_no_lockfile_be_written(project: Path, tmp_path: Path) -> None:
    """All of them are hits; what is judged was recorded when they were built."""
    lock = tmp_path / "policies.lock.json"
    most = max(entry["registers"] for entry in json.loads((project / "first.json").read_text())["entries"])
    command = (project / "clone", project / "store", "--lock", str(lock), "--max-registers")
    refused = build(*command, str(most - 1))
    assert refused.code == 1
    assert f"takes {most} registers a thread, allowed are {most - 1}" in refused.err
    assert refused.report["lockfile"]["digest"] == ""
    assert not lock.exists()
    allowed = build(*command, str(most), "--fail-on", "spills")
    assert allowed.code == 0, allowed.err
    assert lock.exists()


def test_an_unsupported_value_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    """Case A4: kernel, field and allowed values are named, and the store stays empty."""
    copy_project(tmp_path)
    manifest = tmp_path / "specs/deployments/qwen3-8b.yaml"
    manifest.write_text(manifest.read_text().replace("head_dim: {from: model.head_dim}", "head_dim: 96"))
    refused = build(tmp_path, tmp_path / "store")
    assert refused.code == 2
    assert "kernelforge.kernels.qk_norm:QkNorm" in refused.err
    assert "head_dim" in refused.err
    assert "64, 128, 256" in refused.err
    assert not (tmp_path / "store").exists()


def test_an_interrupted_build_goes_on_where_it_was(tmp_path: Path) -> None:
    """Ctrl-C ends within seconds, leaves no process and nothing half-written; what was published is a hit."""
    manifest = write_manifest(tmp_path, ("Copy", WIDTHS), ("Hangs", "{width: 32}"))
    command = [sys.executable, "-m", "kernelforge.cli.main", "build", str(manifest), "--store", "file:store", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while len(list(tmp_path.glob("store/v1/dev/actions/*/*.json"))) < 3:
        assert time.monotonic() < end, "the three good keys are published"
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "the same command goes on from there" in words
    again = run("build", write_manifest(tmp_path, ("Copy", WIDTHS)), "--store", "file:store", "--json", cwd=tmp_path)
    assert again.totals["hits"] == 3


def test_lockfile_has_no_run_dependent_facts(project: Path) -> None:
    """Seconds and registers are in the companion; the lockfile is what it is parsed to, byte for byte."""
    data = lock_of(project / "clone")
    assert Lockfile.parse(data).to_bytes() == data
    assert b"seconds" not in data
    facts = json.loads((project / "clone/registry/releases/qwen3-8b.facts.json").read_text())
    lock = Lockfile.parse(data)
    assert set(facts["keys"]) == {str(entry.key_digest) for entry in lock.entries}
    assert facts["lock"] == str(lock.digest)


def test_a_kernel_module_that_exits_or_prints_is_told_and_not_obeyed(tmp_path: Path) -> None:
    """A build that is green because a kernel called sys.exit(0) has built nothing."""
    kernel = (
        "from dataclasses import dataclass\nfrom tests.kernel_family import Copy\n\nclass Mine(Copy):\n"
        "    @dataclass(frozen=True)\n    class CompileKey(Copy.CompileKey):\n        pass\n\nprint('in between')\n"
    )
    for name, ending in (("exits", "raise SystemExit(0)\n"), ("prints", "")):
        (tmp_path / f"{name}_here.py").write_text(kernel + ending)
        manifest = write_manifest(tmp_path, ("Copy", "{width: 32}"), name=name)
        manifest.write_text(manifest.read_text().replace("tests.kernel_family:Copy", f"{name}_here:Mine"))
    exits = run("plan", "exits.yaml", "--store", "file:store", "--json", cwd=tmp_path)
    assert exits.code == 2
    assert "importing exits_here failed: SystemExit" in exits.err
    elsewhere = write_manifest(tmp_path, ("Copy", "{width: 32}"), name="elsewhere")
    elsewhere.write_text(elsewhere.read_text().replace("tests.kernel_family:Copy", "prints_here:Copy"))
    renamed = run("plan", elsewhere, "--store", "file:store", "--json", cwd=tmp_path)
    assert renamed.code == 2
    assert "write tests.kernel_family:Copy" in renamed.err
    prints = run("plan", "prints.yaml", "--store", "file:store", "--json", cwd=tmp_path)
    assert "in between" in prints.err
    assert "in between" not in prints.out


def test_a_folder_whose_name_means_something_in_a_url_can_hold_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "a %41 #b"
    folder.mkdir()
    assert run("plan", write_manifest(folder, ("Copy", "{width: 32}")), "--json", cwd=folder).totals["misses"] == 1


def test_output_that_nobody_reads_is_no_failure(project: Path) -> None:
    command = f"{sys.executable} -m kernelforge.cli.main report --format json | true; exit ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(["bash", "-c", command], cwd=project / "clone", env=environment, check=False)
    assert done.returncode == 0
