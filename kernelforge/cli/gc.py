"""``kernelforge gc``: what in a store nothing needs any more, and on request its removal; pins."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path

import click

from kernelforge.cli.byte_size import byte_size
from kernelforge.cli.console import print_json, say
from kernelforge.cli.gc_document import collection_document, collection_json, pins_document, pins_json
from kernelforge.cli.options import json_option, opened_store, store_option
from kernelforge.cli.show import show_document
from kernelforge.digest import Digest
from kernelforge.errors import UsageError
from kernelforge.loader.trust import LocalFile, read_trusted
from kernelforge.release.gc.collect import Collection, Survey, check_share, collect, survey
from kernelforge.release.gc.retention import DAY_S, HOUR_S, Retention
from kernelforge.release.pins import Pin, list_pins, pin_lock, remove_pin
from kernelforge.report.units import bytes_text
from kernelforge.store.interface import PruneStore

_DEFAULT = Retention()


@click.command()
@store_option
@json_option
@click.option("--run", "is_run", is_flag=True, help="Do it: delete what is due, and put the rest on the list.")
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0),
    default=_DEFAULT.history_s / DAY_S,
    show_default=True,
    help="A channel keeps the lockfiles of its moves of so many days, and of its last 10 in any case.",
)
@click.option(
    "--grace-hours",
    type=click.FloatRange(min=0),
    default=_DEFAULT.grace_s / HOUR_S,
    show_default=True,
    help="Hours from the run that finds something unreachable to the first one that may delete it.",
)
@click.option(
    "--allow-fraction",
    type=click.FloatRange(0, 1),
    default=_DEFAULT.allow_fraction,
    show_default=True,
    help="Refuse to delete a greater share of the store than this in one run.",
)
@click.option(
    "--max-bytes",
    type=byte_size,
    metavar="SIZE",
    default=None,
    help="Keep the store below this size (50GiB): old moves of channels lose their lockfiles, the oldest first.",
)
@click.option("--pin", nargs=2, default=None, metavar="NAME LOCK", help="Keep a lockfile (file or digest) for good.")
@click.option("--unpin", metavar="NAME", default=None, help="Remove a pin.")
@click.option("--pins", "is_list", is_flag=True, help="Show the pins.")
def command(
    store_location: str,
    as_json: bool,
    is_run: bool,
    keep_days: float,
    grace_hours: float,
    allow_fraction: float,
    max_bytes: int | None,
    pin: tuple[str, str] | None,
    unpin: str | None,
    is_list: bool,
) -> int:
    """Show what in the store nothing needs, and delete it with --run.

    Kept is what channels, their recent moves and pins point at, with all that it names, and whatever is younger than a
    day. The first run with --run only makes a list; a later one deletes what is on it and still not needed.

    \b
    Examples:
      kernelforge gc --store s3://kernels/prod
      kernelforge gc --store s3://kernels/prod --run
      kernelforge gc --pin audit-2027 registry/releases/qwen3-8b.lock.json
    """
    if sum((is_run, pin is not None, unpin is not None, is_list)) > 1:
        raise UsageError("--run, --pin, --unpin and --pins are four different things", hint="give one of them")
    store = opened_store(store_location)
    if pin is not None:
        _pin(store, *pin)
    if unpin is not None:
        say(f"{unpin} no longer keeps {remove_pin(store, unpin).lock}: unless something else does, it goes in time")
    if pin is not None or unpin is not None or is_list:
        return _show_pins(store, as_json)
    retention = Retention(
        history_s=keep_days * DAY_S, grace_s=grace_hours * HOUR_S, allow_fraction=allow_fraction, max_bytes=max_bytes
    )
    collection = collect(store, retention) if is_run else survey(store, retention, now_s=time.time())
    if as_json:
        print_json(collection_json(collection, retention, where=store.location))
    else:
        show_document(collection_document(collection, retention, where=store.location))
    return _exit_code(collection, retention, store.location)


def _pin(store: PruneStore, name: str, lock: str) -> None:
    digest = Digest.parse(lock) if lock.startswith("sha256:") else read_trusted(Path(lock), LocalFile()).digest
    is_new = pin_lock(store, Pin(name, digest, datetime.now(timezone.utc)))
    say(f"{name} {'keeps' if is_new else 'kept already'} {digest}")


def _show_pins(store: PruneStore, as_json: bool) -> int:
    pins = list_pins(store)
    if as_json:
        print_json(pins_json(pins, where=store.location))
    else:
        show_document(pins_document(pins, where=store.location))
    return 0


def _exit_code(found: Survey | Collection, retention: Retention, where: str) -> int:
    """1 if a limit that was asked for does not hold; a plan says so as well as a run."""
    if isinstance(found, Survey):
        check_share(found, retention, where=where)
        found_plan = found.plan
    else:
        found_plan = found.survey.plan
    if found_plan.over_bytes:
        text = bytes_text(found_plan.over_bytes)
        say(f"refs, pins and what is younger than a day are {text} larger than --max-bytes: remove some of them")
    return 1 if found_plan.over_bytes else 0
