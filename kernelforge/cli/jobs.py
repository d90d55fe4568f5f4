"""How many compiles this machine can run at a time."""

from __future__ import annotations

import os


def default_jobs() -> int:
    """Cores that this process may use: an affinity mask (taskset, a cpuset) counts, the machine's size does not."""
    return max(1, len(os.sched_getaffinity(0)))
