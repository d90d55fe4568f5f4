"""The command report."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios

import pytest

from tests.cli.command import REPOSITORY
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release
from tests.report.samples import entry, missed, report

SAVED = json.dumps(report(entry(1), missed(2)).to_json()).encode()


def test_without_arguments_it_says_what_is_locked(kernelforge: Kernelforge, release: Release) -> None:
    """What quickstart ends with: keys, seconds, registers, packs, the lockfile and its digest."""
    ran = kernelforge("report")
    assert ran.code == 0, ran.err
    assert "4 keys, 2 packs" in ran.out
    assert "compiling all of it took 2.00 s of CPU time: a pod compiles nothing" in ran.out
    assert f"registry/releases/small.lock.json: {release.lock.digest}" in ran.out
    assert "tests.kernel_family:Copy" in ran.out
    assert all(str(pack.blob.content_digest) in ran.out for pack in release.lock.packs.values())


def test_what_is_locked_as_json(kernelforge: Kernelforge, release: Release) -> None:
    ran = kernelforge("report", "--json")
    document = json.loads(ran.out)
    assert document["schema"] == "kernelforge.locked/1"
    assert {line["target"]: line["keys"] for line in document["kernels"]} == {
        "sm_90a/x86_64-linux-gnu/cu13": 2,
        "sm_100a/x86_64-linux-gnu/cu13": 2,
    }
    assert document["kernels"][0]["registers"] == [24, 24]


def test_with_several_lockfiles_it_asks_which(kernelforge: Kernelforge, release: Release) -> None:
    shutil.copy(release.lock_path, release.lock_path.with_name("other.lock.json"))
    ran = kernelforge("report")
    assert ran.code == 2
    assert "other.lock.json, small.lock.json" in ran.err
    assert kernelforge("report", "--lock", release.lock_path).code == 0
    assert kernelforge("report", KERNELFORGE_LOCK=str(release.lock_path)).code == 0


def test_without_any_lockfile_it_says_how_to_get_one(kernelforge: Kernelforge, release: Release) -> None:
    shutil.rmtree(release.lock_path.parent)
    ran = kernelforge("report")
    assert ran.code == 2
    assert "kernelforge build" in ran.err
    assert not ran.out


def test_a_saved_report_is_shown_again(kernelforge: Kernelforge, release: Release) -> None:
    (release.folder / "report.json").write_bytes(SAVED)
    ran = kernelforge("report", "report.json")
    assert ran.code == 0, ran.err
    assert "2 keys, 1 hit (50%), 1 miss" in ran.out
    assert "\x1b" not in ran.out
    assert json.loads(kernelforge("report", "report.json", "--json").out) == json.loads(SAVED)


def test_what_a_plan_printed_can_be_shown(kernelforge: Kernelforge, release: Release) -> None:
    """The JSON of the real command is what the reader accepts, and the table counts the same hits."""
    planned = kernelforge("plan", release.manifest, "--store", "file:store", "--json")
    assert planned.code == 0, planned.err
    shown = kernelforge("report", "-", stdin=planned.out.encode())
    assert shown.code == 0, shown.err
    assert "4 keys, 4 hits (100%)" in shown.out


def test_markdown(kernelforge: Kernelforge) -> None:
    assert kernelforge("report", "-", "--format", "markdown", stdin=SAVED).out.startswith("### qwen3-8b: build\n")
    assert "| 2 |" in kernelforge("report", "--format", "markdown").out


def test_colours_and_width_are_the_terminals(release: Release) -> None:
    """Run on a pseudo-terminal; every other test sees what a log sees, which has no escapes."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 150, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "kernelforge.cli.main", "report", "--lock", str(release.lock_path)]
    process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdin=theirs, stdout=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # what Linux answers once the other end is closed
        while chunk := os.read(ours, 1 << 16):
            shown += chunk
    os.close(ours)
    assert process.wait() == 0
    assert b"\x1b[1m" in shown
    assert f"registry/releases/small.lock.json: {release.lock.digest}".encode() in shown


def test_a_report_and_a_lockfile_at_once_are_refused(kernelforge: Kernelforge, release: Release) -> None:
    """Else one of the two would be ignored; a variable that a CI job sets for all commands is no contradiction."""
    assert kernelforge("report", "-", "--lock", release.lock_path, stdin=SAVED).code == 2
    assert kernelforge("report", "-", stdin=SAVED, KERNELFORGE_LOCK=str(release.lock_path)).code == 0


@pytest.mark.parametrize("data", [b"", b"{}", SAVED.replace(b'"misses": 1', b'"misses": 0')])
def test_what_is_no_report_is_refused(kernelforge: Kernelforge, data: bytes) -> None:
    ran = kernelforge("report", "-", stdin=data)
    assert ran.code == 2
    assert "hint:" in ran.err


def test_files_that_are_not_there_are_bad_input(kernelforge: Kernelforge) -> None:
    assert kernelforge("report", "no-such-report.json").code == 2
    assert kernelforge("report", "--lock", "no-such.lock.json").code == 2
