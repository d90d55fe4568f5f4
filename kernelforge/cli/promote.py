"""``kernelforge promote``: point a channel at a lockfile, back at an earlier one, or show who moved it."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import click

from kernelforge.cli.console import print_json, say
from kernelforge.cli.lockfiles import read_lockfile
from kernelforge.cli.options import json_option, opened_store, store_option
from kernelforge.cli.promote_document import expiry_warning, history_json, history_lines, moved_json, moved_text
from kernelforge.cli.signing_key import read_signing_key, signing_key_option
from kernelforge.digest import Digest
from kernelforge.errors import ObjectMissing, UsageError
from kernelforge.release.channels import DEFAULT_LIFETIME, Check, Moved, Mover, promote, roll_back
from kernelforge.release.keys import PublicKey, read_public_key
from kernelforge.release.moves import Move, history
from kernelforge.release.positions import Channel, find_position
from kernelforge.release.promotable import RELEASE_DOMAINS, check_promotable
from kernelforge.release.signature import stored_signatures, trusted_statement
from kernelforge.store.interface import PruneStore

_LONGEST_DAYS = 3650


@dataclass(frozen=True)
class _Asked:
    """What the arguments say that concerns promotions and rollbacks alike."""

    channel: str
    store: PruneStore
    trusted: tuple[PublicKey, ...]
    domains: frozenset[str]
    by: Mover
    is_dry_run: bool


@click.command()
@click.argument("channel", metavar="[DEPLOYMENT/]CHANNEL")
@click.argument("lock", metavar="[LOCKFILE|sha256:...]", required=False)
@store_option
@signing_key_option
@click.option(
    "--trusted-key",
    "trusted_key_files",
    metavar="PUB",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    envvar="KERNELFORGE_TRUSTED_KEYS",
    help="Whose signature the lockfile needs; may be given several times.  [default: that of --key]",
)
@json_option
@click.option("--rollback", "is_rollback", is_flag=True, help="Go back to the lockfile that was promoted before.")
@click.option("--to", "goal", metavar="SERIAL|DIGEST", default=None, help="Roll back to this move or lockfile.")
@click.option("--history", "is_history", is_flag=True, help="Show every move of the channel, the latest first.")
@click.option(
    "--expires-days",
    type=click.IntRange(1, _LONGEST_DAYS),
    default=DEFAULT_LIFETIME.days,
    show_default=True,
    help="For how long pods accept the ref; promote again before that.",
)
@click.option(
    "--allow-domain",
    "allowed_domains",
    metavar="DOMAIN",
    multiple=True,
    help="Accept a lockfile that was built in this domain; 'release' always is.",
)
@click.option("--actor", default=None, help="Who moves the channel, for the log.  [default: your user name]")
@click.option("--reason", default="", help="Why, for the log.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Check everything and say what would be; write nothing.")
def command(
    channel: str,
    lock: str | None,
    store_location: str,
    key_file: Path | None,
    trusted_key_files: tuple[Path, ...],
    as_json: bool,
    is_rollback: bool,
    goal: str | None,
    is_history: bool,
    expires_days: int,
    allowed_domains: tuple[str, ...],
    actor: str | None,
    reason: str,
    is_dry_run: bool,
) -> int:
    """Point CHANNEL at a lockfile in the store.

    The lockfile must be signed, and everything that it names must be there. Pods that load the channel get it from then
    on. Without DEPLOYMENT/ the channel is one of the lockfile's own deployment.

    \b
    Examples:
      kernelforge promote prod registry/releases/qwen3-8b.lock.json --store s3://kernels/prod --key release.key
      kernelforge promote qwen3-8b/prod --rollback --reason "p99 went up" --key release.key
      kernelforge promote qwen3-8b/prod --history --trusted-key release.key.pub
    """
    _check_question(lock, is_rollback, goal, is_history)
    store = opened_store(store_location)
    trusted = tuple(map(read_public_key, trusted_key_files))
    if is_history:
        believed = trusted or (read_signing_key(key_file, os.environ).public,)
        return _show_history(Channel(store, *_both_names(channel), believed), as_json)
    key = read_signing_key(key_file, os.environ)
    asked = _Asked(
        channel,
        store,
        trusted or (key.public,),
        RELEASE_DOMAINS.union(allowed_domains),
        Mover(key, _now(), actor or _user_name(), reason, timedelta(days=expires_days)),
        is_dry_run,
    )
    moved = _roll_back(asked, goal) if lock is None else _promote(asked, lock)
    warnings = [*moved.warnings, *filter(None, [expiry_warning(moved.ref, asked.by.now)])]
    _warn(warnings)
    moved = Moved(moved.ref, tuple(warnings))
    if as_json:
        print_json(moved_json(moved, is_dry_run=is_dry_run))
    else:
        click.echo(moved_text(moved, is_dry_run=is_dry_run))
    return 0


def _check_question(lock: str | None, is_rollback: bool, goal: str | None, is_history: bool) -> None:
    if [lock is not None, is_rollback, is_history].count(True) != 1:
        raise UsageError("one thing at a time", hint="give a lockfile, or --rollback, or --history")
    if goal is not None and not is_rollback:
        raise UsageError("--to says how far to go back", hint="give --rollback too", where="--to")


def _promote(asked: _Asked, lock: str) -> Moved:
    digest, deployment = _meant(asked, lock)
    if "/" in asked.channel:
        deployment, name = _both_names(asked.channel)
    else:
        name = asked.channel
    channel, check = _channel(asked, deployment, name)
    return promote(channel, digest, asked.by, check=check, dry_run=asked.is_dry_run)


def _roll_back(asked: _Asked, goal: str | None) -> Moved:
    channel, check = _channel(asked, *_both_names(asked.channel))
    return roll_back(channel, asked.by, check=check, to=_goal(goal), dry_run=asked.is_dry_run)


def _channel(asked: _Asked, deployment: str, name: str) -> tuple[Channel, Check]:
    """The channel, and what its lockfiles must be. Its refs may have been signed by whoever signs now."""
    check = partial(
        check_promotable,
        asked.store,
        deployment=deployment,
        trusted=asked.trusted,
        now=asked.by.now,
        domains=asked.domains,
    )
    refs_trusted = tuple(dict.fromkeys((*asked.trusted, asked.by.key.public)))
    return Channel(asked.store, deployment, name, refs_trusted), check


def _meant(asked: _Asked, lock: str) -> tuple[Digest, str]:
    """The lockfile's digest, and the deployment that it is of."""
    if lock.startswith("sha256:"):
        digest = Digest.parse(lock)
        if "/" in asked.channel:
            return digest, ""
        signatures = stored_signatures(asked.store, digest)
        statement = trusted_statement(digest, signatures, trusted=asked.trusted, now=asked.by.now, where=lock)
        return digest, statement.provenance.deployment
    lockfile = read_lockfile(Path(lock))
    return lockfile.digest, lockfile.name


def _both_names(channel: str) -> tuple[str, str]:
    deployment, separator, name = channel.partition("/")
    if not separator:
        raise UsageError(f"{channel!r} is a channel of which deployment?", hint=f"write DEPLOYMENT/{channel}")
    return deployment, name


def _goal(text: str | None) -> int | Digest | None:
    if text is None:
        return None
    if text.startswith("sha256:"):
        return Digest.parse(text)
    if not text.isascii() or not text.isdigit():
        hint = "give a serial from --history, or sha256:..."
        raise UsageError(f"{text!r} is neither a serial nor a digest", hint=hint, where="--to")
    return int(text)


def _show_history(channel: Channel, as_json: bool) -> int:
    position = find_position(channel)
    if position.ref is None:
        hint = "check --store and the names, or promote a lockfile"
        raise ObjectMissing("the channel has never been moved", hint=hint, where=channel.where)
    before = history(channel.store, position.ref, trusted=channel.trusted)
    moves = [Move(position.ref.serial, position.ref), *before]
    warnings = [*position.warnings, *filter(None, [expiry_warning(position.ref, _now())])]
    _warn(warnings)
    if as_json:
        print_json(history_json(moves, channel.name, warnings))
    else:
        for line in history_lines(moves):
            click.echo(line)
    return 1 if any(move.problem for move in moves) else 0


def _warn(warnings: list[str]) -> None:
    for warning in warnings:
        say(f"{click.style('warning:', fg='yellow', bold=True)} {warning}")


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # a container whose user has no name
        raise UsageError("it is not known who moves the channel", hint="give --actor NAME", where="--actor") from error


def _now() -> datetime:
    return datetime.now(timezone.utc)
