"""Kernels do not survive a fork: CUDA's state stays with the parent, and a launch in the child fails obscurely.

The child is told once, by the hook that Python runs in it, so that no call of the parent pays for a check. Knows
nothing of what it tells.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from kernelforge.errors import LoadedBeforeFork


class OutlivesNoFork(Protocol):
    """What has to know that it was made before this process was forked."""

    def forget_after_fork(self) -> None:
        """Called in the child, which has one thread then."""


_watched: weakref.WeakSet[OutlivesNoFork] = weakref.WeakSet()


def watch_forks(made: OutlivesNoFork) -> None:
    """Call ``made.forget_after_fork()`` in every child that is forked while ``made`` is alive."""
    _watched.add(made)


def loaded_before_fork() -> LoadedBeforeFork:
    """The error for whatever is asked of kernels in a child of the process that loaded them."""
    return LoadedBeforeFork(
        f"process {os.getpid()} was forked from the one that loaded these kernels, and CUDA does not survive a fork",
        hint="load in the child and not before, or start it with the method 'spawn'",
    )


def _tell_all() -> None:
    for made in list(_watched):
        made.forget_after_fork()


os.register_at_fork(after_in_child=_tell_all)
