"""The children of a template and their limits: whoever takes too long or too much memory is killed.

Watched from outside, because a kernel can change the signals and limits of its own process. Knows pids, nothing of
compiling.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelforge.builder.job import Limits

# Memory can be had at 10 GB/s at most: 0.5 GB beyond the limit. One look takes 20 us.
SECONDS_BETWEEN_LOOKS = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass
class _Child:
    number: int
    ends_at: float
    broken_limit: str = ""


class Watch:
    """Children by pid. ``limits`` hold for each of them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._children: dict[int, _Child] = {}

    def __bool__(self) -> bool:
        return bool(self._children)

    def add(self, pid: int, number: int) -> None:
        """A child that was started now, for the job with this number."""
        self._children[pid] = _Child(number, time.monotonic() + self._limits.seconds)

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
        """What became of each child that has ended: job, exit code, cost, and the limit for which it was killed."""
        while self._children:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            child = self._children.pop(pid, None)
            if child is not None:  # else a process that outlived the child that had started it
                yield {
                    "number": child.number,
                    "code": os.waitstatus_to_exitcode(status),
                    "limit": child.broken_limit,
                    "seconds": usage.ru_utime + usage.ru_stime,
                    "peak_memory_bytes": usage.ru_maxrss * 1024,  # KiB on Linux
                }

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
