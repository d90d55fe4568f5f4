"""``kernelforge plan``: which keys a deployment needs, which of them exist, and why the others do not."""

from __future__ import annotations

import time
from pathlib import Path

import click

from kernelforge.cli.console import say_store_troubles
from kernelforge.cli.deployment import plan_deployment, read_deployment
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
from kernelforge.cli.outcome import Spent, report_of_plan
from kernelforge.cli.show import show_report


@click.command()
@manifest_argument
@store_option
@domain_option
@lock_option
@misses_option
@json_option
@click.option(
    "--fail-on",
    type=click.Choice(["miss"]),
    help="Exit with 1 if a key would have to be compiled.",
)
def command(
    manifest: Path,
    store_location: str,
    domain: str,
    lock_path: Path | None,
    misses: tuple[Path, ...],
    as_json: bool,
    fail_on: str | None,
) -> int:
    """Show the keys of MANIFEST: hits, misses and the reason for each. Compiles and writes nothing."""
    started = time.monotonic()
    store = opened_store(store_location)
    deployment = read_deployment(manifest)
    lock = lock_path_for(deployment.name, lock_path)
    planned = plan_deployment(deployment, store=store, domain=domain, lock_path=lock, misses=misses)
    report = report_of_plan(planned.plan, Spent(time.monotonic() - started, store.traffic), lockfile=str(lock))
    show_report(report, as_json=as_json)
    if report.store_errors:
        say_store_troubles(report)
        return 3
    return 1 if fail_on == "miss" and report.misses else 0
