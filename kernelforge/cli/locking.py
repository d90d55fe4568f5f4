"""The end of a build: policies, packs and lockfile, report, exit code. Shared by ``build`` and ``lock``."""

from __future__ import annotations

import time
from pathlib import Path

from kernelforge.builder.build import BuildResult
from kernelforge.cli.console import say, say_conflicts, say_forbidden, say_store_troubles
from kernelforge.cli.deployment import Planned
from kernelforge.cli.healed import forget_healed
from kernelforge.cli.options import opened_store
from kernelforge.cli.outcome import Spent, facts_of, lockfile_of, report_of_build
from kernelforge.cli.policies import Policies
from kernelforge.cli.show import show_report
from kernelforge.errors import UsageError
from kernelforge.release.facts import facts_bytes, facts_path
from kernelforge.release.publish import publish_lockfile, write_file
from kernelforge.reporting import Outcome, Report
from kernelforge.store.interface import PruneStore
from kernelforge.store.memory import MemoryStore


def store_to_lock(location: str) -> PruneStore:
    """The store at ``location``; ``UsageError`` for one that no lockfile can name packs in."""
    store = opened_store(location)
    if isinstance(store, MemoryStore):
        hint = "name a folder or a bucket"
        raise UsageError("a lockfile would name packs that end with this command", hint=hint, where="--store memory:")
    return store


def lock_and_report(
    planned: Planned,
    result: BuildResult,
    *,
    store: PruneStore,
    domain: str,
    path: Path,
    policies: Policies,
    started: float,
    as_json: bool,
) -> int:
    """Write the lockfile if nothing is missing or forbidden, show the report, return the exit code."""

    def report_with(digest: str) -> Report:
        spent = Spent(time.monotonic() - started, store.traffic)
        return report_of_build(planned.plan, result, spent, lockfile=str(path), lockfile_digest=digest)

    forbidden = policies.violations(report_with(""))
    is_releasable = result.is_complete and not forbidden
    report = report_with(_write_lockfile(planned, result, store, domain, path) if is_releasable else "")
    show_report(report, as_json=as_json)
    say_forbidden(forbidden)
    return _exit_code(report) or (1 if forbidden else 0)


def _write_lockfile(planned: Planned, result: BuildResult, store: PruneStore, domain: str, path: Path) -> str:
    """Publish the lockfile and write it for review; returns its digest. Unchanged files are left alone."""
    lock = lockfile_of(planned.plan, result)
    facts = facts_of(result)
    documents = {path: lock.to_bytes()}
    if facts:
        documents[facts_path(path)] = facts_bytes(lock.digest, facts)
    is_known = planned.plan.published == lock.digest
    publish_lockfile(lock, store, facts=documents.get(facts_path(path)), domain=None if is_known else domain)
    forget_healed(store, {blob.stored_digest for blob in lock.blobs} & planned.plan.damaged)
    for target, data in documents.items():
        say(f"{'wrote' if write_file(target, data) else 'unchanged:'} {target}")
    return str(lock.digest)


def _exit_code(report: Report) -> int:
    say_conflicts(report)
    if report.store_errors:
        say_store_troubles(report)
        return 3
    return 1 if report.count(Outcome.FAILED) else 0
