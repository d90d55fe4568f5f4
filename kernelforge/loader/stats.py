"""What a load did, how long each step took and what was asked of its kernels since, as values.

Knows none of the steps and none of the counters: whoever does something names it here.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PackSource = Literal["path", "mount", "cache", "store"]

HITS = "hits"
MISSES = "misses"
JIT = "jit"
ERROR_PREFIX = "error:"

_log = logging.getLogger(__name__)


class Counters:
    """Numbers by name that only grow; may be used from several threads.

    A name is a lower-case word, ``waited``; each also becomes a metric of that name.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}

    def add(self, name: str, amount: int = 1) -> None:
        """Count something that happened."""
        with self._lock:
            self._numbers[name] = self._numbers.get(name, 0) + amount

    def add_error(self, error: BaseException) -> None:
        """Count an error under its type's name: one that was survived, or one that a caller was given."""
        self.add(f"{ERROR_PREFIX}{type(error).__name__}")

    def snapshot(self) -> Mapping[str, int]:
        """The numbers as they are now."""
        with self._lock:
            return dict(self._numbers)


@dataclass(frozen=True)
class LoadStats:
    """``seconds`` maps each step of the load to its wall time, in the order in which they ran.

    ``pack_source`` is where the pack's bytes came from. ``is_in_memory``: no file could be used, the pack was opened
    from memory. ``had_damaged_copy``: the copy in the cache could not be used. ``saved_s`` is what compiling the loaded
    kernels took when they were built, in CPU seconds, None where nobody gave the build facts. ``counters`` has what was
    counted, during the load and since; what never happened is not in it.
    """

    seconds: Mapping[str, float]
    pack_source: PackSource
    pack_bytes: int
    is_in_memory: bool
    had_damaged_copy: bool
    kernel_classes: int
    kernels: int
    saved_s: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        saved = "" if self.saved_s is None else f", {self.saved_s:.1f} s of compiling saved"
        return (
            f"loaded {self.kernels} kernels of {self.kernel_classes} classes in {self.total_s * 1e3:.1f} ms "
            f"(pack of {self.pack_bytes} bytes from {self.pack_source}{', in memory' * self.is_in_memory}){saved}"
        )

    @property
    def total_s(self) -> float:
        """Sum of all steps."""
        return sum(self.seconds.values())

    @property
    def hits(self) -> int:
        """Compile keys that were asked for and found, each counted once."""
        return self.counters.get(HITS, 0)

    @property
    def misses(self) -> int:
        """Times that a compile key was asked for which the lockfile lacks."""
        return self.counters.get(MISSES, 0)

    @property
    def jit(self) -> int:
        """Keys that the lockfile lacks and that this node compiled, here or in a process of it before this one."""
        return self.counters.get(JIT, 0)

    @property
    def errors(self) -> Mapping[str, int]:
        """How often each type of error was survived during the load or raised by a look-up or call since."""
        return {
            name.removeprefix(ERROR_PREFIX): count
            for name, count in self.counters.items()
            if name.startswith(ERROR_PREFIX)
        }


class StepClock:
    """Wall time by step; a step that runs twice adds up. ``counters`` takes what is counted on the way."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.counters = Counters()

    def step(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Time the block as one step, also when it raises."""
        return _Step(name, self.seconds)


class _Step:
    """A class, because a load has 13 of them: entering a generator takes 4 us in a fresh process, this 1."""

    def __init__(self, name: str, seconds: dict[str, float]) -> None:
        self._name = name
        self._seconds = seconds
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        elapsed_s = time.perf_counter() - self._started
        self._seconds[self._name] = self._seconds.get(self._name, 0.0) + elapsed_s
        _log.debug("%s: %.3f ms", self._name, elapsed_s * 1e3)
