"""Entries of a report that have the same fate, as one: 560 keys that miss for one reason are one line with a count.

Pure counting; what a line looks like is decided elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kernelforge.reporting import Outcome, Report, ReportEntry

# Reasons can name single keys, so there may be as many as entries: the most frequent ones are told, the rest counted.
REASONS_SHOWN = 5


@dataclass(frozen=True)
class Fate:
    """Entries of one kernel and target with one outcome and one reason."""

    outcome: Outcome
    reason: str
    entries: tuple[ReportEntry, ...]

    @property
    def seconds(self) -> float:
        """CPU seconds of all compiles together, recorded or spent now."""
        return sum(entry.seconds for entry in self.entries)


@dataclass(frozen=True)
class KernelGroup:
    """All entries of one kernel for one target. ``devices`` are the profiles that use any of them."""

    kernel: str
    target: str
    devices: tuple[str, ...]
    fates: tuple[Fate, ...]


def group_entries(report: Report) -> tuple[KernelGroup, ...]:
    """The entries by kernel and target, and in these by outcome and reason, the most frequent first."""
    by_kernel: dict[tuple[str, str], list[ReportEntry]] = defaultdict(list)
    for entry in report.entries:
        by_kernel[entry.kernel, entry.target].append(entry)
    return tuple(
        KernelGroup(kernel, target, _devices(entries), _fates(entries))
        for (kernel, target), entries in sorted(by_kernel.items())
    )


def _devices(entries: Sequence[ReportEntry]) -> tuple[str, ...]:
    return tuple(sorted({device for entry in entries for device in entry.devices}))


def _fates(entries: Sequence[ReportEntry]) -> tuple[Fate, ...]:
    fates: list[Fate] = []
    for outcome in Outcome:
        by_reason: dict[str, list[ReportEntry]] = defaultdict(list)
        for entry in entries:
            if entry.outcome is outcome:
                by_reason[entry.reason].append(entry)
        ordered = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
        fates += [Fate(outcome, reason, tuple(alike)) for reason, alike in _shown(ordered)]
    return tuple(fates)


def _shown(ordered: list[tuple[str, list[ReportEntry]]]) -> list[tuple[str, list[ReportEntry]]]:
    if len(ordered) <= REASONS_SHOWN + 1:
        return ordered
    rest = ordered[REASONS_SHOWN:]
    others = f"{len(rest):,} other reasons, each in the JSON report"
    return [*ordered[:REASONS_SHOWN], (others, [entry for _, entries in rest for entry in entries])]
