"""What a build survives: kernels that go wrong among many that do not, and being killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import REPOSITORY, run, write_manifest

pytestmark = pytest.mark.slow

_FAULTY = ("Raises", "Aborts", "HangsOnPurpose", "EatsMemory")
# 54 keys of a kernel that behaves and two of one that prints and changes its process.
_COPY = ("Copy", f"{{width: {{choices: {[32 * number for number in range(1, 55)]}}}}}")
_UNTIDY = ("Untidy", "{width: {choices: [32, 64]}}")
_LIMITS = ("--limit-seconds", "6", "--limit-memory", "1GiB")
_FEW = ("Copy", f"{{width: {{choices: {[32 * number for number in range(1, 19)]}}}}}")
# Each has three builds killed.
_STORES = 10


def test_four_faulty_kernels_among_sixty_keys(tmp_path: Path) -> None:
    """Case C4 and its whole kind: 56 with the bytes that they have alone, four typed failures, and the 56 are kept."""
    faulty = [(name, "{width: 32}") for name in _FAULTY]
    manifest = write_manifest(tmp_path, _COPY, _UNTIDY, *faulty, name="chaos")
    first = run("build", manifest, "--store", "file:store", "--json", *_LIMITS, cwd=tmp_path)
    assert first.code == 1, first.err
    assert (first.totals["keys"], first.totals["built"], first.totals["failed"]) == (60, 56, 4)
    failures = {entry["kernel"].partition(":")[2]: entry["failure"] for entry in first.report["entries"]}
    ends = {name: (failures[name]["phase"], failures[name]["signal"], failures[name]["limit"]) for name in _FAULTY}
    assert ends == {
        "Raises": ("trace", "", ""),
        "Aborts": ("trace", "SIGABRT", ""),
        "HangsOnPurpose": ("trace", "SIGKILL", "seconds"),
        "EatsMemory": ("trace", "SIGKILL", "memory"),
    }
    assert not (tmp_path / "registry").exists()

    again = run("build", manifest, "--store", "file:store", "--json", *_LIMITS, cwd=tmp_path)
    assert (again.code, again.totals["reused"], again.totals["built"]) == (1, 56, 0)

    alone = [
        run("build", write_manifest(tmp_path, kernel), "--store", f"file:{kernel[0]}", "--json", cwd=tmp_path)
        for kernel in (_COPY, _UNTIDY)
    ]
    assert objects(first.report) == {**objects(alone[0].report), **objects(alone[1].report)}


def test_keys_that_share_a_process_do_not_share_what_goes_wrong(tmp_path: Path) -> None:
    """With one worker up to eight keys of a kernel are compiled in one process, unless one of them disturbs it."""
    widths = f"{{width: {{choices: {[32 * number for number in range(1, 17)]}}}}}"
    manifest = write_manifest(tmp_path, ("Moody", widths), ("Remembers", widths))
    done = run("build", manifest, "--store", "file:store", "--json", "--jobs", "1", cwd=tmp_path)
    assert done.code == 1, done.err
    failed = {entry["compile_key"]["width"]: entry for entry in done.report["entries"] if entry["failure"]}
    assert {width: entry["kernel"].partition(":")[2] for width, entry in failed.items()} == {96: "Moody", 160: "Moody"}
    assert failed[96]["failure"]["signal"] == "SIGABRT"
    assert "not this one" in failed[160]["failure"]["message"]
    assert done.totals["built"] == 30
    alone = run("build", manifest, "--store", "file:alone", "--json", "--jobs", "64", cwd=tmp_path)
    assert objects(alone.report) == objects(done.report), "with so many workers every key has a process of its own"


def objects(report: dict) -> dict[str, str]:
    """Key digest -> digest of its object."""
    return {entry["key_digest"]: entry["object_digest"] for entry in report["entries"] if entry["object_digest"]}


def test_killed_at_thirty_moments_a_build_goes_on_where_it_was(tmp_path: Path, seaweed_server) -> None:
    """Whatever was published is a hit; in the end there is the same lockfile as without a kill."""
    manifest, environment = write_manifest(tmp_path, _FEW, _UNTIDY), seaweed_server.environment()
    started = time.monotonic()
    expected = lockfile_of_build(manifest, seaweed_server.location("whole"), tmp_path / "whole", environment)
    takes_s = time.monotonic() - started
    moments, killed = random.Random(5), 0
    for number in range(_STORES):
        location = seaweed_server.location(f"killed-{number}")
        # What the first two leave undone is enough for the third, which may also come too late.
        for latest_s in (0.4 * takes_s, 0.4 * takes_s, takes_s):
            killed += is_killed(manifest, location, tmp_path, moments.uniform(0.2, latest_s), environment)
        assert lockfile_of_build(manifest, location, tmp_path / str(number), environment) == expected
    assert killed >= 2 * _STORES, "these came before the build had ended by itself"


def lockfile_of_build(manifest: Path, location: str, folder: Path, environment: dict[str, str]) -> bytes:
    """The lockfile of an undisturbed build."""
    folder.mkdir()
    done = run("build", manifest, "--store", location, cwd=folder, **environment)
    assert done.code == 0, done.err
    return (folder / "registry/releases/small.lock.json").read_bytes()


def is_killed(manifest: Path, location: str, folder: Path, after_s: float, environment: dict[str, str]) -> bool:
    """Start a build and kill it with SIGKILL; False if it had ended before."""
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment}
    command = [sys.executable, "-m", "kernelforge.cli.main", "build", str(manifest), "--store", location]
    build = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        build.wait(after_s)
    except subprocess.TimeoutExpired:
        build.kill()
    return build.wait() == -signal.SIGKILL
