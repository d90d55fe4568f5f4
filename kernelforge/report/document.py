"""What a report says, before anyone decides how it looks: a title, lines, tables, failures, notes.

The one place that chooses what is worth telling; ``table`` and ``markdown`` only draw it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelforge.report.groups import Fate, KernelGroup, group_entries
from kernelforge.report.units import bytes_text, count_text, range_text, seconds_text
from kernelforge.reporting import Failure, Outcome, Report, ReportEntry


@dataclass(frozen=True)
class Column:
    """A column of a table. ``width`` in characters; 0 takes what is left and wraps."""

    name: str
    width: int = 0
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of text, one cell for each column."""

    heading: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Trouble:
    """One failure in full: what failed, ``lines`` about it, and the end of its log."""

    heading: str
    lines: tuple[str, ...]
    log_tail: str


@dataclass(frozen=True)
class Document:
    """All that a rendering shows, in this order."""

    title: str
    summary: tuple[str, ...]
    tables: tuple[Table, ...]
    troubles: tuple[Trouble, ...] = ()
    notes: tuple[str, ...] = ()


FATE_COLUMNS = (
    Column("outcome", 11),
    Column("keys", 6, is_number=True),
    Column("seconds", 10, is_number=True),
    Column("registers", 9, is_number=True),
    Column("spills B", 8, is_number=True),
    Column("shared B", 11, is_number=True),
    Column("reason"),
)


def report_document(report: Report) -> Document:
    """What a plan's or build's report says."""
    return Document(
        title=f"{report.name}: {report.command}",
        summary=tuple(_summary(report)),
        tables=tuple(_kernel_table(group) for group in group_entries(report)),
        troubles=tuple(_trouble(entry, entry.failure) for entry in report.entries if entry.failure),
        notes=report.notes,
    )


def _summary(report: Report) -> Iterator[str]:
    share = f" ({report.hits / report.keys:.0%})" if report.keys else ""
    counts = [count_text(report.keys, "key"), count_text(report.hits, "hit") + share, count_text(report.misses, "miss")]
    yield ", ".join([*counts, count_text(report.store_errors, "store error")])
    if any(entry.outcome not in (Outcome.HIT, Outcome.MISS, Outcome.STORE_ERROR) for entry in report.entries):
        outcomes = (Outcome.BUILT, Outcome.REUSED, Outcome.FAILED, Outcome.SKIPPED)
        yield ", ".join(f"{outcome.value} {report.count(outcome):,}" for outcome in outcomes)
    yield (
        f"wall {seconds_text(report.wall_seconds)}, compile CPU {seconds_text(report.compile_cpu_seconds)}, "
        f"saved {seconds_text(report.saved_seconds)}; {count_text(report.requests, 'request')}, "
        f"{bytes_text(report.bytes_read)} read, {bytes_text(report.bytes_written)} written; "
        f"{count_text(report.workers_started, 'worker process')} started"
    )
    for expansion in report.expansions:
        yield f"{expansion.kernel} on {expansion.device}: {expansion.points:,} -> {expansion.keys:,}"
    for device, digest in sorted(report.packs.items()):
        yield f"pack of {device}: {digest}"
    if report.lockfile:
        yield f"lockfile {report.lockfile}{f': {report.lockfile_digest}' if report.lockfile_digest else ''}"


def _kernel_table(group: KernelGroup) -> Table:
    heading = f"{group.kernel} for {group.target} ({', '.join(group.devices)})"
    return Table(heading, FATE_COLUMNS, tuple(_fate_row(fate) for fate in group.fates))


def _fate_row(fate: Fate) -> tuple[str, ...]:
    return (
        fate.outcome.value,
        f"{len(fate.entries):,}",
        f"{fate.seconds:,.2f}",
        range_text(entry.registers for entry in fate.entries),
        range_text(entry.spill_bytes for entry in fate.entries),
        range_text(entry.shared_memory_bytes for entry in fate.entries),
        fate.reason,
    )


def _trouble(entry: ReportEntry, failure: Failure) -> Trouble:
    fields = ", ".join(f"{name}={value!r}" for name, value in entry.compile_key.items())
    lines = [f"{failure.phase}: {failure.message}"]
    lines += [f"source: {failure.source}"] if failure.source else []
    lines += [f"signal: {failure.signal}"] if failure.signal and not failure.limit else []
    lines += [f"whole log: blob {failure.log}"] if failure.log else []
    return Trouble(f"{entry.kernel} ({fields}) for {entry.target}", tuple(lines), failure.log_tail)
