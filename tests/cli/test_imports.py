"""What commands import: a pod has the base install only, and nobody waits for what a command does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.released import Release

# Everything that the base install does not have, and what is slow to import.
ABSENT_IN_A_POD = (
    "boto3",
    "botocore",
    "cutlass",
    "elftools",
    "packaging",
    "pydantic",
    "rich",
    "torch",
    "yaml",
    "ziglang",
)
COMMANDS = ("plan", "build", "verify", "pull", "promote", "inspect", "explain", "doctor", "report")
POD_COMMANDS = ("verify", "pull", "inspect", "explain", "doctor", "report")

_RUN = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
from kernelforge.cli.main import main
main(sys.argv[1:])
"""
_LIST = """
import sys
from kernelforge.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0, end.code
print("imported", *sorted({{name.partition(".")[0] for name in sys.modules}} & {wanted!r}))
"""


def run_blocked(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _RUN.format(blocked=ABSENT_IN_A_POD), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def imported(*arguments: str) -> list[str]:
    command = [sys.executable, "-c", _LIST.format(wanted={*ABSENT_IN_A_POD, "tvm_ffi", "zstandard"}), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


def test_help_imports_nothing_heavy() -> None:
    """The list of commands is what people type first; importing every command for it would take a second."""
    assert imported("--help") == []


@pytest.mark.parametrize("command", POD_COMMANDS)
def test_the_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    assert imported(command, "--help") == []


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_the_command_works_with_the_base_install(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run_blocked(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kernelforge" in done.stdout


def test_a_pod_can_pull_and_verify_with_the_base_install(release: Release) -> None:
    pin = ("--pin", release.lock.digest)
    store, cache = ("--store", "file:store"), ("--cache", "cache")
    for arguments in (
        ("verify", release.lock_path, *store, *pin),
        ("verify", release.lock_path, *store, "--deep"),
        ("pull", release.lock_path, *store, *cache, *pin),
        ("verify", release.lock_path, "--local", *cache, *pin),
        ("report", "--format", "markdown"),
        ("report", "--json"),
        ("explain", release.lock_path, release.lock_path),
    ):
        done = run_blocked(*arguments, cwd=release.folder)
        assert done.returncode == 0, (arguments, done.stderr)


def test_asking_whether_a_pod_is_ready_imports_nothing_heavy(release: Release) -> None:
    """It runs every few seconds for the life of the pod."""
    cache = ("--cache", str(release.folder / "cache"))
    pulled = run_blocked("pull", release.lock_path, "--trust-file", "--store", "file:store", *cache, cwd=release.folder)
    assert pulled.returncode == 0, pulled.stderr
    assert imported("verify", str(release.lock_path), "--local", *cache) == []


@pytest.mark.parametrize(
    "arguments", [("plan", "small.yaml"), ("build", "small.yaml"), ("explain", "small.yaml"), ("inspect",), ("report",)]
)
def test_what_needs_the_build_packages_says_so(release: Release, arguments: tuple[str, ...]) -> None:
    """A traceback would leave the reader to guess which extra it is."""
    extra = (release.lock_path, "--store", "file:store") if arguments == ("inspect",) else ()
    done = run_blocked(*arguments, *extra, cwd=release.folder)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "kernelforge[build]" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_or_says_what_it_does(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kernelforge.cli.main", command, "--help"], capture_output=True, text=True, check=True
    )
    assert "--json" in done.stdout
    if command in POD_COMMANDS:
        assert f"kernelforge {command} " in done.stdout.partition("Examples:")[2]
