"""``kernelforge explain``: why a deployment has these keys, why some miss, what differs between two lockfiles."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from kernelforge.cli.console import print_json
from kernelforge.cli.explain_text import difference_text, keys_text, misses_text
from kernelforge.cli.explained_keys import ExplainedRequest, explain_request
from kernelforge.cli.lock_difference import compare_lockfiles
from kernelforge.cli.lockfiles import read_lockfile
from kernelforge.cli.options import domain_option, json_option, lock_option, lock_path_for, opened_store, store_option
from kernelforge.errors import InputError, UsageError
from kernelforge.reporting import Outcome, ReportEntry

SCHEMA = "kernelforge.explanation/1"


@click.command()
@click.argument("paths", metavar="MANIFEST | OLD.lock.json NEW.lock.json", type=click.Path(path_type=Path), nargs=-1)
@click.option("--misses", is_flag=True, help="Say for every key that would be compiled why it misses.")
@click.option("--kernel", default=None, metavar="NAME", help="Only kernels whose name has this in it.")
@store_option
@domain_option
@lock_option
@json_option
def command(
    paths: tuple[Path, ...],
    misses: bool,
    kernel: str | None,
    store_location: str,
    domain: str,
    lock_path: Path | None,
    as_json: bool,
) -> int:
    """Say why keys exist, miss or differ.

    For a manifest: where its keys come from, or with --misses why they would be compiled. For two lockfiles: what
    differs, and which part of the key made it so.

    \b
    Examples:
      kernelforge explain specs/deployments/qwen3-8b.yaml --kernel QkNorm
      kernelforge explain specs/deployments/qwen3-8b.yaml --misses
      kernelforge explain before.lock.json after.lock.json
    """
    if len(paths) == 2 and not misses:
        return _explain_difference(*paths, kernel, as_json)
    if len(paths) != 1 or paths[0].name.endswith(".lock.json"):
        raise UsageError("that is not one question", hint="give one manifest, or two lockfiles (without --misses)")
    if misses:
        return _explain_misses(paths[0], kernel, store_location, domain, lock_path, as_json)
    return _explain_keys(paths[0], kernel, as_json)


def _explain_keys(manifest: Path, kernel: str | None, as_json: bool) -> int:
    from kernelforge.cli.deployment import read_deployment

    deployment = read_deployment(manifest)
    requests = [request for request in deployment.requests if (kernel or "") in request.kernel]
    _check_any(requests, kernel, sorted({request.kernel for request in deployment.requests}))
    explained = [
        explain_request(request, target.profile, str(target.target))
        for request in requests
        for target in deployment.targets
    ]
    if as_json:
        print_json({"schema": SCHEMA, "name": deployment.name, "kernels": [_request_json(each) for each in explained]})
    else:
        click.echo(keys_text(explained))
    return 0


def _explain_misses(
    manifest: Path, kernel: str | None, store_location: str, domain: str, lock_path: Path | None, as_json: bool
) -> int:
    from kernelforge.cli.deployment import plan_deployment, read_deployment
    from kernelforge.cli.outcome import Spent, report_of_plan

    started = time.monotonic()
    deployment = read_deployment(manifest)
    store = opened_store(store_location)
    lock = lock_path_for(deployment.name, lock_path)
    planned = plan_deployment(deployment, store=store, domain=domain, lock_path=lock)
    report = report_of_plan(planned.plan, Spent(time.monotonic() - started, store.traffic), lockfile=str(lock))
    chosen = [entry for entry in report.entries if (kernel or "") in entry.kernel]
    _check_any(chosen, kernel, sorted({entry.kernel for entry in report.entries}))
    missing = [entry for entry in chosen if entry.outcome is not Outcome.HIT]
    if as_json:
        document = {"schema": SCHEMA, "name": report.name, "keys": len(chosen), "lockfile": str(lock)}
        print_json({**document, "misses": [_miss_json(entry) for entry in missing]})
    else:
        click.echo(misses_text(missing, keys=len(chosen)))
    return 3 if any(entry.outcome is Outcome.STORE_ERROR for entry in missing) else 0


def _explain_difference(old: Path, new: Path, kernel: str | None, as_json: bool) -> int:
    if kernel:
        raise UsageError("--kernel does not apply to lockfiles", hint="leave it out: all that differs is shown")
    difference = compare_lockfiles(read_lockfile(old), read_lockfile(new))
    if as_json:
        keys = [asdict(change) for change in difference.keys]
        document = {"schema": SCHEMA, "old": str(old), "new": str(new)}
        print_json({**document, "keys": keys, "release": difference.release})
    else:
        click.echo(difference_text(difference))
    return 0


def _check_any(chosen: Sequence[object], kernel: str | None, known: Sequence[str]) -> None:
    if not chosen:
        raise InputError(f"no kernel's name has {kernel!r} in it", hint=f"the kernels are: {', '.join(known)}")


def _request_json(explained: ExplainedRequest) -> dict[str, Any]:
    return {
        "kernel": explained.kernel,
        "device": explained.device,
        "target": explained.target,
        "arguments": [asdict(argument) for argument in explained.arguments],
        "facts": {name: {"value": value, "source": source} for name, (value, source) in explained.facts.items()},
        "points": explained.points,
        "keys": [asdict(key) for key in explained.keys],
    }


def _miss_json(entry: ReportEntry) -> dict[str, Any]:
    return {
        "kernel": entry.kernel,
        "compile_key": dict(entry.compile_key),
        "target": entry.target,
        "devices": list(entry.devices),
        "key_digest": entry.key_digest,
        "outcome": entry.outcome.value,
        "reason": entry.reason,
    }
