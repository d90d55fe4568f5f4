"""``kernelforge lock``: the lockfile of what several builds have published together. Compiles nothing."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from kernelforge.builder.build import BuildOptions, build
from kernelforge.builder.job import LIMIT_MEMORY_BYTES, Limits
from kernelforge.cli.build_options import policy_options
from kernelforge.cli.console import say
from kernelforge.cli.deployment import plan_deployment, read_deployment
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
from kernelforge.cli.outcome import Spent, report_of_plan
from kernelforge.cli.policies import Policies
from kernelforge.cli.show import show_report
from kernelforge.plan import Miss

_LIMIT_S = 600.0


@click.command()
@manifest_argument
@store_option
@domain_option
@lock_option
@misses_option
@json_option
@policy_options
def command(
    manifest: Path,
    store_location: str,
    domain: str,
    lock_path: Path | None,
    misses: tuple[Path, ...],
    as_json: bool,
    fail_on: tuple[str, ...],
    max_registers: int | None,
) -> int:
    """Join what the shards of a build have published: link the packs and write the lockfile of MANIFEST.

    Keys that nobody has built make it exit with 1; the report says which, and nothing is written.

    \b
    Example, after 'kernelforge build MANIFEST --shard I/8' on eight machines:
      kernelforge lock specs/deployments/qwen3-8b.yaml --store s3://kernels/prod
    """
    started = time.monotonic()
    store = store_to_lock(store_location)
    deployment = read_deployment(manifest)
    path = lock_path_for(deployment.name, lock_path)
    planned = plan_deployment(deployment, store=store, domain=domain, lock_path=path, misses=misses)
    missing = planned.plan.decided(Miss)
    if missing:
        spent = Spent(time.monotonic() - started, store.traffic)
        show_report(report_of_plan(planned.plan, spent, lockfile=str(path)), as_json=as_json)
        say(f"{len(missing)} of {len(planned.plan.keys)} keys are not built yet: run 'kernelforge build' for them")
        return 1
    options = BuildOptions(1, Limits(_LIMIT_S, LIMIT_MEMORY_BYTES), tuple(sys.path))
    result = build(planned.plan, store=store, domain=domain, options=options, on_progress=lambda key: None)
    policies = Policies(allows_spills="spills" not in fail_on, max_registers=max_registers)
    return lock_and_report(
        planned, result, store=store, domain=domain, path=path, policies=policies, started=started, as_json=as_json
    )
