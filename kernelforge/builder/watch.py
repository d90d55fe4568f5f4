"""The children of a template and their limits: whoever takes too long or too much memory is killed.

Watched from outside, because a kernel can change the signals and limits of its own process. Knows pids, nothing of
compiling.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelforge.builder.job import Limits

# Memory can be had at 10 GB/s at most: 0.5 GB beyond the limit. One look takes 20 us.
SECONDS_BETWEEN_LOOKS = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass
class _Child:
    """``numbers``: the jobs that it has not done yet, the first of which is under way."""

    numbers: deque[int]
    ends_at: float
    broken_limit: str = ""
    has_left: bool = False


class Watch:
    """Children by pid. ``limits`` hold for each job of theirs."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._children: dict[int, _Child] = {}

    def __bool__(self) -> bool:
        return bool(self._children)

    def add(self, pid: int, numbers: Sequence[int]) -> None:
        """A child that was started now, for the jobs with these numbers."""
        self._children[pid] = _Child(deque(numbers), time.monotonic() + self._limits.seconds)

    def done(self, pid: int) -> None:
        """The child has done the job that was under way; the next one has all of its time."""
        child = self._children[pid]
        child.numbers.popleft()
        child.ends_at = time.monotonic() + self._limits.seconds

    def left(self, pid: int) -> None:
        """The child ends by itself, between two jobs."""
        self._children[pid].has_left = True

    def kill_beyond_limits(self) -> None:
        """To be called every ``SECONDS_BETWEEN_LOOKS``."""
        for pid, child in self._children.items():
            if not child.broken_limit and (broken := self._broken_limit(pid, child)):
                child.broken_limit = broken
                os.kill(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """The build is gone: its keys need no objects any more."""
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def reap(self) -> Iterator[dict[str, Any]]:
        """What became of the jobs of every child that has ended without doing them.

        ``ended`` is the one during which it died, with its exit code and the limit for which it was killed;
        ``returned`` are those that it had not begun.
        """
        while self._children:
            pid, status, _ = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            child = self._children.pop(pid, None)
            if child is None:  # a process that outlived the child that had started it
                continue
            if child.numbers and not child.has_left:
                code = os.waitstatus_to_exitcode(status)
                yield {"ended": {"number": child.numbers.popleft(), "code": code, "limit": child.broken_limit}}
            for number in child.numbers:
                yield {"returned": {"number": number}}

    def _broken_limit(self, pid: int, child: _Child) -> str:
        if time.monotonic() > child.ends_at:
            return "seconds"
        return "memory" if _resident_bytes(pid) > self._limits.memory_bytes else ""


def _resident_bytes(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:  # it has ended
        return 0
    return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else 0
