"""What a load did and how long each step took, as values.

Knows none of the steps: ``load`` names them.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

PackSource = Literal["path", "cache", "store"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadStats:
    """``seconds`` maps each step of the load to its wall time, in the order in which they ran.

    ``pack_source`` is where the pack's bytes came from. ``is_in_memory``: no file could be used, the pack was opened
    from memory. ``had_damaged_copy``: the copy in the cache could not be used.
    """

    seconds: Mapping[str, float]
    pack_source: PackSource
    pack_bytes: int
    is_in_memory: bool
    had_damaged_copy: bool
    kernel_classes: int
    kernels: int

    @property
    def total_s(self) -> float:
        """Sum of all steps."""
        return sum(self.seconds.values())


class StepClock:
    """Wall time by step; a step that runs twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block as one step, also when it raises."""
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed_s = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed_s
            _log.debug("%s: %.3f ms", name, elapsed_s * 1e3)
