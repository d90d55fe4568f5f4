"""What a release may not have, whoever built it: spilled registers, more registers than a limit.

Judges the facts that were read from the images, of hits as well as of what was compiled now. Knows no store and no
compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelforge.reporting import Report, ReportEntry


@dataclass(frozen=True)
class Policies:
    """``allows_spills``: whether threads may keep registers in local memory. ``max_registers`` of a thread, or None."""

    allows_spills: bool = True
    max_registers: int | None = None

    def violations(self, report: Report) -> list[str]:
        """One line for each key that breaks a policy, and for each whose image told nothing about it."""
        return [
            f"{entry.kernel} ({_fields(entry)}) for {entry.target}: {problem}"
            for entry in report.entries
            if entry.object_digest
            for problem in self._problems(entry)
        ]

    def _problems(self, entry: ReportEntry) -> Iterator[str]:
        if not self.allows_spills:
            if entry.spill_bytes is None:
                yield "nothing is recorded about its spills"
            elif entry.spill_bytes:
                yield f"spills {entry.spill_bytes} bytes a thread"
        if self.max_registers is not None:
            if entry.registers is None:
                yield "nothing is recorded about its registers"
            elif entry.registers > self.max_registers:
                yield f"takes {entry.registers} registers a thread, allowed are {self.max_registers}"


def _fields(entry: ReportEntry) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in entry.compile_key.items())
