"""From plans and build results to the documents about them: report, lockfile, build facts.

The one place that counts, and the one that knows both what was planned and what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelforge.builder.build import BuildResult, BuiltKey
from kernelforge.contract import ABI, CONTRACT_VERSION
from kernelforge.lockfile import LockedEntry, LockedKernel, Lockfile
from kernelforge.plan import Hit, Miss, Plan, PlannedKey, StoreTrouble
from kernelforge.reporting import Failure, Outcome, Report, ReportEntry
from kernelforge.store.interface import Traffic


@dataclass(frozen=True)
class Spent:
    """What a command cost: wall seconds since the process started, and the store's traffic."""

    wall_seconds: float
    traffic: Traffic


def report_of_plan(plan: Plan, spent: Spent, *, lockfile: str) -> Report:
    """What a build would do now."""
    entries = tuple(_planned_entry(key) for key in plan.keys)
    return _report(plan, "plan", plan.keys, entries, spent, lockfile=lockfile)


def report_of_build(plan: Plan, result: BuildResult, spent: Spent, *, lockfile: str, lockfile_digest: str) -> Report:
    """What a build did."""
    entries = tuple(_built_entry(key) for key in sorted(result.keys, key=_order))
    return _report(
        plan,
        "build",
        # Not the plan's: a hit whose object turned out to be lost is a miss in the end.
        [key.planned for key in result.keys],
        entries,
        spent,
        lockfile=lockfile,
        lockfile_digest=lockfile_digest,
        workers_started=result.processes_started,
        packs={device: str(pack.blob.content_digest) for device, pack in result.packs.items()},
        notes=result.notes,
        conflicts=result.conflicts,
    )


def lockfile_of(plan: Plan, result: BuildResult) -> Lockfile:
    """The lockfile of a complete build."""
    return Lockfile(
        name=plan.name,
        abi=ABI,
        contract=CONTRACT_VERSION,
        toolchains={cuda: toolchain.to_json() for cuda, toolchain in plan.toolchains.items()},
        devices={name: profile for name, (profile, _) in plan.targets.items()},
        kernels={
            name: LockedKernel(
                launch_fingerprint=sources.launch.digest,
                source_fingerprint=sources.device.digest,
                sources={part: str(digest) for part, digest in sources.device.parts.items()},
                compile_options=sources.compile_options,
            )
            for name, sources in plan.kernels.items()
        },
        entries=tuple(_locked_entry(key) for key in sorted(result.keys, key=_order)),
        packs=result.packs,
    )


def facts_of(result: BuildResult) -> dict[str, dict[str, Any]]:
    """Build facts by key digest, of the keys whose facts are known."""
    return {str(key.planned.key_digest): {**key.facts, "seconds": key.seconds} for key in result.keys if key.facts}


def _locked_entry(key: BuiltKey) -> LockedEntry:
    assert key.object is not None, "a lockfile is made of complete builds only"
    return LockedEntry(
        kernel=key.planned.kernel,
        compile_key=key.planned.compile_key,
        target=key.planned.target,
        key_digest=key.planned.key_digest,
        symbol=key.planned.symbol,
        object=key.object,
        devices=key.planned.devices,
    )


def _report(
    plan: Plan,
    command: str,
    keys: Sequence[PlannedKey],
    entries: tuple[ReportEntry, ...],
    spent: Spent,
    **rest: Any,
) -> Report:
    decisions = [key.decision for key in keys]
    hits = [decision for decision in decisions if isinstance(decision, Hit)]
    built = [entry for entry in entries if entry.outcome is Outcome.BUILT]
    traffic = spent.traffic
    return Report(
        name=plan.name,
        command=command,
        entries=entries,
        hits=len(hits),
        misses=sum(isinstance(decision, Miss) for decision in decisions),
        store_errors=sum(isinstance(decision, StoreTrouble) for decision in decisions),
        expansions=plan.expansions,
        wall_seconds=spent.wall_seconds,
        compile_cpu_seconds=sum(entry.seconds for entry in built),
        saved_seconds=sum(hit.seconds for hit in hits),
        bytes_read=traffic.bytes_read,
        bytes_written=traffic.bytes_written,
        requests=traffic.requests,
        **rest,
    )


def _order(key: BuiltKey) -> tuple[str, str, str]:
    return key.planned.kernel, str(key.planned.target), key.planned.symbol


def _planned_entry(key: PlannedKey) -> ReportEntry:
    decision = key.decision
    if isinstance(decision, Hit):
        return _entry(
            key, Outcome.HIT, decision.reason, str(decision.object.content_digest), decision.facts, decision.seconds
        )
    if isinstance(decision, Miss):
        return _entry(key, Outcome.MISS, decision.reason, "", {}, 0.0)
    return _entry(key, Outcome.STORE_ERROR, decision.reason, "", {}, 0.0)


def _built_entry(key: BuiltKey) -> ReportEntry:
    digest = str(key.object.content_digest) if key.object else ""
    return _entry(key.planned, key.outcome, key.reason, digest, key.facts, key.seconds, key.failure)


def _entry(
    key: PlannedKey,
    outcome: Outcome,
    reason: str,
    object_digest: str,
    facts: Mapping[str, Any],
    seconds: float,
    failure: Failure | None = None,
) -> ReportEntry:
    return ReportEntry(
        kernel=key.kernel,
        compile_key=key.compile_key,
        target=str(key.target),
        devices=key.devices,
        key_digest=str(key.key_digest),
        outcome=outcome,
        reason=reason,
        object_digest=object_digest,
        seconds=seconds,
        registers=facts.get("registers"),
        shared_memory_bytes=facts.get("static_shared_memory_bytes"),
        spill_bytes=facts.get("spill_bytes"),
        failure=failure,
    )
