"""``kernelforge build``: compile what is missing, publish it, link the packs, write the lockfile."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import click

from kernelforge.builder.build import BuildOptions, BuildResult, build
from kernelforge.builder.job import Limits
from kernelforge.cli.byte_size import byte_size
from kernelforge.cli.console import say, say_conflicts, say_forbidden, say_store_troubles
from kernelforge.cli.deployment import Planned, plan_deployment, read_deployment
from kernelforge.cli.healed import forget_healed
from kernelforge.cli.jobs import default_jobs
from kernelforge.cli.options import (
    domain_option,
    json_option,
    lock_option,
    lock_path_for,
    manifest_argument,
    misses_option,
    opened_store,
    store_option,
)
from kernelforge.cli.outcome import Spent, facts_of, lockfile_of, report_of_build
from kernelforge.cli.policies import Policies
from kernelforge.cli.progress import Progress
from kernelforge.cli.show import show_report
from kernelforge.errors import UsageError
from kernelforge.release.facts import facts_bytes, facts_path
from kernelforge.release.publish import publish_lockfile, write_file
from kernelforge.reporting import Outcome, Report
from kernelforge.store.interface import PruneStore
from kernelforge.store.memory import MemoryStore


@click.command()
@manifest_argument
@store_option
@domain_option
@lock_option
@misses_option
@json_option
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=None,
    help="Compiles at a time.  [default: usable cores, and as memory allows]",
)
@click.option(
    "--limit-seconds",
    type=click.FloatRange(min=0, min_open=True, max=86400),
    default=600.0,
    show_default=True,
    help="Wall time of one compile, after which it has failed.",
)
@click.option(
    "--limit-memory",
    type=byte_size,
    default="4GiB",
    show_default=True,
    help="Memory of one compile, beyond which it has failed.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["spills"]),
    multiple=True,
    help="Release nothing in which a kernel spills registers.",
)
@click.option(
    "--max-registers",
    type=click.IntRange(1, 255),
    default=None,
    help="Release nothing in which a thread takes more registers.",
)
def command(
    manifest: Path,
    store_location: str,
    domain: str,
    lock_path: Path | None,
    misses: tuple[Path, ...],
    as_json: bool,
    jobs: int | None,
    limit_seconds: float,
    limit_memory: int,
    fail_on: tuple[str, ...],
    max_registers: int | None,
) -> int:
    """Build every key of MANIFEST that does not exist yet, and write the lockfile.

    A kernel that fails costs its own keys: the others are built and kept, the exit code is 1, and no lockfile is
    written, because it would lack keys. The same where --fail-on or --max-registers forbid what was built.
    """
    started = time.monotonic()
    store = opened_store(store_location)
    if isinstance(store, MemoryStore):
        hint = "name a folder or a bucket"
        raise UsageError("a lockfile would name packs that end with this command", hint=hint, where="--store memory:")
    if not math.isfinite(limit_seconds):
        raise UsageError("is no time", hint="give seconds, up to 86400", where=f"--limit-seconds {limit_seconds}")
    deployment = read_deployment(manifest)
    lock = lock_path_for(deployment.name, lock_path)
    planned = plan_deployment(deployment, store=store, domain=domain, lock_path=lock, misses=misses)
    workers = jobs or default_jobs(len({target for _, target in planned.plan.targets.values()}))
    options = BuildOptions(workers, Limits(limit_seconds, limit_memory), sys_path=tuple(sys.path))
    with Progress(planned.plan) as progress:
        result = build(planned.plan, store=store, domain=domain, options=options, on_progress=progress.advance)

    def report_with(digest: str) -> Report:
        spent = Spent(time.monotonic() - started, store.traffic)
        return report_of_build(planned.plan, result, spent, lockfile=str(lock), lockfile_digest=digest)

    forbidden = Policies(allows_spills="spills" not in fail_on, max_registers=max_registers).violations(report_with(""))
    is_releasable = result.is_complete and not forbidden
    report = report_with(_write_lockfile(planned, result, store, domain, lock) if is_releasable else "")
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
