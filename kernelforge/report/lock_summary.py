"""What a lockfile holds, with what its build facts know about it: counts, sizes, seconds (``kernelforge.locked/1``).

Not a report: nothing hit or missed here. It answers 'what would a pod get?' on a machine that has only the files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernelforge.lockfile import LockedEntry, LockedPack, Lockfile
from kernelforge.report.document import Column, Document, Table
from kernelforge.report.units import bytes_text, count_text, range_text, seconds_text

SCHEMA = "kernelforge.locked/1"

_KERNEL_COLUMNS = (
    Column("keys", 6, is_number=True),
    Column("seconds", 10, is_number=True),
    Column("registers", 9, is_number=True),
    Column("spills B", 8, is_number=True),
    Column("shared B", 11, is_number=True),
    Column("objects", 9, is_number=True),
    Column("kernel"),
)
_PACK_COLUMNS = (
    Column("keys", 6, is_number=True),
    Column("size", 9, is_number=True),
    Column("download", 9, is_number=True),
    Column("device", 14),
    Column("pack"),
)


@dataclass(frozen=True)
class KernelLine:
    """The keys of one kernel for one target. Facts are (least, most) over the keys, None where none is known."""

    kernel: str
    target: str
    keys: int
    seconds: float
    registers: tuple[int, int] | None
    spill_bytes: tuple[int, int] | None
    shared_memory_bytes: tuple[int, int] | None
    object_bytes: int


@dataclass(frozen=True)
class PackLine:
    """The pack of one device profile; ``download_bytes`` is its size in the store."""

    device: str
    target: str
    digest: str
    keys: int
    size_bytes: int
    download_bytes: int


@dataclass(frozen=True)
class LockSummary:
    """A lockfile in numbers. ``keys_with_facts`` says of how many keys the seconds and registers are known."""

    name: str
    lockfile: str
    digest: str
    keys: int
    keys_with_facts: int
    kernels: tuple[KernelLine, ...]
    packs: tuple[PackLine, ...]

    def to_json(self) -> dict[str, Any]:
        """The document of schema ``kernelforge.locked/1``."""
        return {"schema": SCHEMA, **asdict(self)}


def summarise_lockfile(lock: Lockfile, facts: Mapping[str, Mapping[str, Any]], *, path: str) -> LockSummary:
    """Count what ``lock`` holds; ``facts`` are its build facts by key digest, empty where there are none."""
    by_kernel: dict[tuple[str, str], list[LockedEntry]] = defaultdict(list)
    for entry in lock.entries:
        by_kernel[str(entry.target), entry.kernel].append(entry)
    return LockSummary(
        name=lock.name,
        lockfile=path,
        digest=str(lock.digest),
        keys=len(lock.entries),
        keys_with_facts=sum(str(entry.key_digest) in facts for entry in lock.entries),
        kernels=tuple(
            _kernel_line(kernel, target, entries, facts) for (target, kernel), entries in sorted(by_kernel.items())
        ),
        packs=tuple(_pack_line(device, pack, lock) for device, pack in sorted(lock.packs.items())),
    )


def lock_document(summary: LockSummary) -> Document:
    """What the summary says to people."""
    seconds = sum(line.seconds for line in summary.kernels)
    lines = [f"{count_text(summary.keys, 'key')}, {count_text(len(summary.packs), 'pack')}"]
    if summary.keys_with_facts:
        known = "" if summary.keys_with_facts == summary.keys else f" (known for {summary.keys_with_facts:,} keys)"
        lines.append(f"compiling all of it took {seconds_text(seconds)} of CPU time{known}: a pod compiles nothing")
    lines.append(f"lockfile {summary.lockfile}: {summary.digest}")
    targets = dict.fromkeys(line.target for line in summary.kernels)
    kernels = [Table(target, _KERNEL_COLUMNS, tuple(_kernel_rows(summary, target))) for target in targets]
    packs = Table("packs", _PACK_COLUMNS, tuple(map(_pack_row, summary.packs)))
    return Document(f"{summary.name}: locked", tuple(lines), (*kernels, packs))


def _kernel_line(
    kernel: str, target: str, entries: Sequence[LockedEntry], facts: Mapping[str, Mapping[str, Any]]
) -> KernelLine:
    known = [facts[str(entry.key_digest)] for entry in entries if str(entry.key_digest) in facts]
    return KernelLine(
        kernel=kernel,
        target=target,
        keys=len(entries),
        seconds=sum(float(fact.get("seconds", 0.0)) for fact in known),
        registers=_least_and_most(known, "registers"),
        spill_bytes=_least_and_most(known, "spill_bytes"),
        shared_memory_bytes=_least_and_most(known, "static_shared_memory_bytes"),
        object_bytes=sum(entry.object.content_size_bytes for entry in entries),
    )


def _least_and_most(facts: Sequence[Mapping[str, Any]], name: str) -> tuple[int, int] | None:
    values = [int(fact[name]) for fact in facts if fact.get(name) is not None]
    return (min(values), max(values)) if values else None


def _pack_line(device: str, pack: LockedPack, lock: Lockfile) -> PackLine:
    return PackLine(
        device=device,
        target=str(pack.target),
        digest=str(pack.blob.content_digest),
        keys=len(lock.entries_for(device)),
        size_bytes=pack.blob.content_size_bytes,
        download_bytes=pack.blob.stored_size_bytes,
    )


def _kernel_rows(summary: LockSummary, target: str) -> list[tuple[str, ...]]:
    return [
        (
            f"{line.keys:,}",
            f"{line.seconds:,.2f}",
            range_text(line.registers or ()),
            range_text(line.spill_bytes or ()),
            range_text(line.shared_memory_bytes or ()),
            bytes_text(line.object_bytes),
            line.kernel,
        )
        for line in summary.kernels
        if line.target == target
    ]


def _pack_row(line: PackLine) -> tuple[str, ...]:
    return f"{line.keys:,}", bytes_text(line.size_bytes), bytes_text(line.download_bytes), line.device, line.digest
