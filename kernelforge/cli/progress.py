"""Progress of a build on stderr: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import click

from kernelforge.builder.build import BuiltKey
from kernelforge.cli.console import say
from kernelforge.plan import Miss, Plan, StoreTrouble
from kernelforge.reporting import Outcome

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Says what will be compiled, how far it is, and every failure at once; silent about hits."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._misses = len(plan.decided(Miss))
        self._done = 0
        self._failed = 0
        self._started = time.monotonic()
        self._last_line = self._started

    def __enter__(self) -> Progress:
        for expansion in self._plan.expansions:
            say(f"{expansion.kernel} on {expansion.device}: {expansion.points:,} -> {expansion.keys}")
        unknown = len(self._plan.decided(StoreTrouble))
        trouble = f", {unknown} that the store gave no answer about" if unknown else ""
        say(f"{self._plan.name}: {len(self._plan.keys)} keys, {self._misses} to compile{trouble}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.stderr.isatty() and self._misses:
            say("")

    def advance(self, key: BuiltKey) -> None:
        """Take note of one key's end."""
        if key.outcome is Outcome.FAILED:
            self._failed += 1
            self._say_failure(key)
        if key.outcome is Outcome.SKIPPED:
            self._misses -= 1
        elif isinstance(key.planned.decision, Miss):
            self._done += 1
            self._misses = max(self._misses, self._done)  # what was lost is compiled beyond the plan
            self._say_position()

    def _say_position(self) -> None:
        now = time.monotonic()
        rate = self._done / max(now - self._started, 1e-9)
        remaining = (self._misses - self._done) / rate
        failed = f", {self._failed} failed" if self._failed else ""
        line = f"compiled {self._done}/{self._misses}{failed}, {rate:.1f} keys/s, {remaining:.0f} s to go"
        if sys.stderr.isatty():
            click.echo(f"\r{line:<70}", err=True, nl=False)
        elif now - self._last_line >= _SECONDS_BETWEEN_LINES or self._done == self._misses:
            self._last_line = now
            say(line)

    def _say_failure(self, key: BuiltKey) -> None:
        failure = key.failure
        assert failure is not None
        fields = ", ".join(f"{name}={value!r}" for name, value in key.planned.compile_key.items())
        at = f" at {failure.source}" if failure.source else ""
        say(f"\nfailed: {key.planned.kernel} ({fields}) for {key.planned.target}{at}")
        say(f"  {failure.phase}: {failure.message}")
