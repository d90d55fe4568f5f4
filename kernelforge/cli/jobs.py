"""How many compiles this machine can run at a time, by the cores and the memory that this process may use."""

from __future__ import annotations

import os
from pathlib import Path

from kernelforge.cli.cgroup import cpu_limit, memory_limit

# Compiling processes were measured at 0.23 GB resident (norms, bench/build.py) to 0.45 GB. A template, which has the
# compiler imported and compiles no key, is no larger.
_BYTES_PER_PROCESS = 500_000_000


def default_jobs(targets: int = 1, root: Path = Path("/")) -> int:
    """At least 1. An affinity mask (taskset, a cpuset) and a container's limits count, the machine's size does not.

    ``targets``: each has a template process beside the compiles. ``root``: where proc and sys are mounted.
    """
    return max(1, min(_cores(root), _memory_bytes(root) // _BYTES_PER_PROCESS - targets))


def _cores(root: Path) -> int:
    allowed = len(os.sched_getaffinity(0))
    quota = cpu_limit(root)
    return allowed if quota is None else min(allowed, quota)


def _memory_bytes(root: Path) -> int:
    """The machine's memory, and not what is free of it: the file cache makes room when it is asked to."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit(root)
    return physical if limit is None else min(physical, limit)
