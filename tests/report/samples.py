"""Reports for tests: a valid one, of which each test changes what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernelforge.reporting import Expansion, Failure, Outcome, Report, ReportEntry

TARGET = "sm_90a/x86_64-linux-gnu/cu13"
CHANGED_COMPILER = "toolchain nvidia-cutlass-dsl 4.7.1 -> 4.8.0"


def entry(number: int, outcome: Outcome = Outcome.REUSED, **changes: Any) -> ReportEntry:
    """One entry; ``number`` tells its compile key from others."""
    known = ReportEntry(
        kernel="pack.norms:Norm",
        compile_key={"width": number, "dtype": "bfloat16"},
        target=TARGET,
        devices=("h200-sxm",),
        key_digest=f"sha256:{number:064x}",
        outcome=outcome,
        reason="in the action cache",
        object_digest=f"sha256:{number + 1000:064x}",
        seconds=0.25,
        registers=24 + number % 3,
        shared_memory_bytes=0,
        spill_bytes=0,
    )
    return replace(known, **changes)


def missed(number: int, reason: str = CHANGED_COMPILER, **changes: Any) -> ReportEntry:
    """An entry of a plan that would be compiled."""
    nothing = {"object_digest": "", "seconds": 0.0, "registers": None, "shared_memory_bytes": None, "spill_bytes": None}
    return entry(number, Outcome.MISS, **{"reason": reason, **nothing, **changes})


def failed(number: int, **changes: Any) -> ReportEntry:
    """An entry whose compile failed."""
    failure = Failure("compile", "ValueError: no such width", "/src/norms.py:12", "", "first line\nlast line\n")
    return entry(number, Outcome.FAILED, **{"failure": failure, **changes})


def report(*entries: ReportEntry, **changes: Any) -> Report:
    """A report whose counts agree with its entries."""
    hits = sum(each.outcome in (Outcome.HIT, Outcome.REUSED) for each in entries)
    store_errors = sum(each.outcome is Outcome.STORE_ERROR for each in entries)
    known = Report(
        name="qwen3-8b",
        command="build",
        entries=entries,
        hits=hits,
        misses=len(entries) - hits - store_errors,
        store_errors=store_errors,
        expansions=(Expansion("pack.norms:Norm", "h200-sxm", 16384, 40),),
        wall_seconds=3.217,
        compile_cpu_seconds=5.25,
        saved_seconds=72.5,
        workers_started=2,
        bytes_read=1_200_000,
        bytes_written=400,
        requests=92,
        lockfile="registry/releases/qwen3-8b.lock.json",
        lockfile_digest="sha256:" + "b" * 64,
        packs={"h200-sxm": "sha256:" + "c" * 64},
        notes=("one note",),
    )
    return replace(known, **changes)
