"""Lockfiles as commands get them: a path that the user typed, so a file that the user vouches for.

Needs the base install only, since ``pull`` and ``verify`` run in pods.
"""

from __future__ import annotations

from pathlib import Path

from kernelforge.loader.trust import LocalFile, read_trusted
from kernelforge.lockfile import Lockfile


def read_lockfile(path: Path) -> Lockfile:
    """The lockfile at ``path``; ``LockfileError`` if there is none or it is not one of ours."""
    trusted = read_trusted(path, LocalFile())
    return Lockfile.parse(trusted.data, where=trusted.where)
