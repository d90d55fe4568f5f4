"""``kernelforge build``: compile what is missing, publish it, link the packs, write the lockfile."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import click

from kernelforge.builder.build import BuildOptions, build
from kernelforge.builder.job import Limits
from kernelforge.cli.build_options import ShardType, policy_options
from kernelforge.cli.byte_size import byte_size
from kernelforge.cli.deployment import plan_deployment, read_deployment
from kernelforge.cli.jobs import default_jobs
from kernelforge.cli.locking import lock_and_report, store_to_lock
from kernelforge.cli.options import (
    domain_option,
    json_option,
    lock_option,
    lock_path_for,
    manifest_argument,
    misses_option,
    store_option,
)
from kernelforge.cli.policies import Policies
from kernelforge.cli.progress import Progress
from kernelforge.errors import UsageError
from kernelforge.plan import Shard


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
@click.option("--shard", type=ShardType(), default=None, help="Compile this part of the keys: 2/8. 'lock' joins them.")
@policy_options
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
    shard: Shard | None,
    fail_on: tuple[str, ...],
    max_registers: int | None,
) -> int:
    """Build every key of MANIFEST that does not exist yet, and write the lockfile.

    A kernel that fails costs its own keys: the others are built and kept, the exit code is 1, and no lockfile is
    written, because it would lack keys. The same where --fail-on or --max-registers forbid what was built. With
    --shard the machines of a CI matrix each compile a part, and 'kernelforge lock' writes the lockfile in the end.
    """
    started = time.monotonic()
    store = store_to_lock(store_location)
    if not math.isfinite(limit_seconds):
        raise UsageError("is no time", hint="give seconds, up to 86400", where=f"--limit-seconds {limit_seconds}")
    deployment = read_deployment(manifest)
    lock = lock_path_for(deployment.name, lock_path)
    planned = plan_deployment(deployment, store=store, domain=domain, lock_path=lock, misses=misses)
    workers = jobs or default_jobs(len({target for _, target in planned.plan.targets.values()}))
    options = BuildOptions(workers, Limits(limit_seconds, limit_memory), tuple(sys.path), shard)
    with Progress(planned.plan) as progress:
        result = build(planned.plan, store=store, domain=domain, options=options, on_progress=progress.advance)
    policies = Policies(allows_spills="spills" not in fail_on, max_registers=max_registers)
    return lock_and_report(
        planned, result, store=store, domain=domain, path=lock, policies=policies, started=started, as_json=as_json
    )
