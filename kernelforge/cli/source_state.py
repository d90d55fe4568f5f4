"""Which commit the sources here are, asked of git: for provenance, which is written when somebody signs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kernelforge.cli.console import say
from kernelforge.release.provenance import SourceState

_LIMIT_S = 60.0


def source_state(folder: Path, *, besides: Sequence[Path]) -> SourceState | None:
    """The commit that is checked out at ``folder``, and whether anything but ``besides`` differs from it.

    Files that git does not know count as differences, since a build may have used them; ignored ones do not. None where
    there is no answer, and why is said.
    """
    outside = [f":(top,exclude,literal){path}" for path in _inside(besides, folder)]
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=normal", "--", ":(top)", *outside)
    return None if changes is None else SourceState(commit.strip(), bool(changes.strip()))


def _inside(paths: Sequence[Path], folder: Path) -> list[str]:
    """Those of the paths that are in the checkout, as git names them."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top is None:
        return []
    root = Path(top.rstrip("\n")).resolve()
    resolved = [path.resolve() for path in paths]
    return [path.relative_to(root).as_posix() for path in resolved if path.is_relative_to(root)]


def _git(folder: Path, *arguments: str) -> str | None:
    # Without optional locks: to look must not get in the way of somebody who commits.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"the signature will name no source: git gave no answer: {error}")
        return None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing"]
        say(f"the signature will name no source: git says: {said[0]}")
        return None
    return done.stdout
