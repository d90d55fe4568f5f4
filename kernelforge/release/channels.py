"""Moves a channel: the one step of a release that pods see.

A channel may point only at what can be served from the store and is signed, so everything is checked before it moves.
The move is one conditional write, so of two who move a channel at once one wins, and the other learns who it was. Then
the move goes on the log. A channel that is moved always gets a greater serial, also when its ref was deleted or an old
one was put back: the log knows how far it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kernelforge.digest import Digest
from kernelforge.errors import (
    ObjectConflict,
    ObjectMissing,
    StoreError,
    StoreUnavailable,
    UntrustedLockfile,
    UsageError,
)
from kernelforge.release.envelope import seal
from kernelforge.release.keys import SigningKey
from kernelforge.release.moves import history, read_move, record_move
from kernelforge.release.positions import Channel, Position, find_position, somebody_moved
from kernelforge.release.refs import PAYLOAD_TYPE, SIZE_LIMIT_BYTES, Ref
from kernelforge.release.utc import whole_seconds
from kernelforge.store.announcements import announce, sweep_since
from kernelforge.store.layout import ref_name

#: A quarter of a year: a channel that nobody looks after stops taking in new pods, and one release a quarter renews it.
DEFAULT_LIFETIME = timedelta(days=90)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mover:
    """Who moves a channel, when, why and for how long."""

    key: SigningKey
    now: datetime
    actor: str
    reason: str = ""
    lifetime: timedelta = DEFAULT_LIFETIME


@dataclass(frozen=True)
class Moved:
    """The channel's new ref, and what people should know besides."""

    ref: Ref
    warnings: tuple[str, ...]


#: Raises unless a channel may point at the lockfile with this digest.
Check = Callable[[Digest], None]


def promote(channel: Channel, lock: Digest, by: Mover, *, check: Check, dry_run: bool = False) -> Moved:
    """Point the channel at ``lock``; at the lockfile that it points at already, this renews the ref.

    ``check`` raises unless the channel may point at it. Raises what that and ``find_position`` raise, and
    ``ChannelMoved`` if somebody else moved the channel since this call began.
    """
    position = find_position(channel, repair=not dry_run)
    last = position.ref
    if last is None:
        back_to = None
    elif last.lock == lock:
        back_to = last.back_to
    else:
        back_to = last.promoted
    ref = _next(channel, position, lock, by, restored=None, back_to=back_to)
    _check(channel, lock, check, dry_run)
    return Moved(ref, position.warnings) if dry_run else _move(channel, position, ref, by.key)


def roll_back(
    channel: Channel, by: Mover, *, check: Check, to: int | Digest | None = None, dry_run: bool = False
) -> Moved:
    """Point the channel at a lockfile that it has pointed at, as a new move.

    ``to`` is the serial of that move or the lockfile; by default, the lockfile that was promoted before this one.
    After a rollback that is one further back, not the one that was rolled back. Raises what ``promote`` raises;
    ``UsageError`` if there is no such move on the log.
    """
    position = find_position(channel, repair=not dry_run)
    goal = _goal(channel, position, to)
    ref = _next(channel, position, goal.lock, by, restored=goal.promoted, back_to=goal.back_to)
    _check(channel, goal.lock, check, dry_run)
    return Moved(ref, position.warnings) if dry_run else _move(channel, position, ref, by.key)


def _check(channel: Channel, lock: Digest, check: Check, dry_run: bool) -> None:
    """Check what the channel is to point at, so that garbage collection cannot take it away before the ref holds it."""
    if dry_run:
        check(lock)
        return
    announced = announce(channel.store, locks=[lock], blobs=())
    check(lock)
    if sweep_since(channel.store, announced):
        check(lock)


def _goal(channel: Channel, position: Position, to: int | Digest | None) -> Ref:
    """The move that a rollback restores."""
    last = position.ref
    if last is None:
        raise ObjectMissing("the channel has never been moved", hint="promote a lockfile first", where=channel.where)
    if isinstance(to, Digest):
        goal = _latest_with(channel, last, to)
    else:
        goal = _logged(channel, last, last.back_to if to is None else to)
    if goal.lock == last.lock:
        hint = f"to renew the ref: kernelforge promote {channel.name} {last.lock}"
        raise UsageError(f"the channel points at {last.lock} already", hint=hint, where=channel.where)
    return goal


def _logged(channel: Channel, last: Ref, serial: int | None) -> Ref:
    if serial is None:
        hint = "promote another lockfile, or see 'kernelforge promote --history'"
        raise UsageError(f"nothing was promoted before serial {last.serial}", hint=hint, where=channel.where)
    if not 1 <= serial < last.serial:
        hint = f"give one from 1 to {last.serial - 1}, see 'kernelforge promote --history'"
        raise UsageError(f"serial {serial} is not before serial {last.serial}", hint=hint, where=channel.where)
    try:
        return read_move(channel.store, channel.deployment, channel.channel, serial, trusted=channel.trusted)
    except ObjectMissing as error:
        raise _not_on_log(channel, f"serial {serial}") from error


def _latest_with(channel: Channel, last: Ref, lock: Digest) -> Ref:
    if last.lock == lock:
        return last
    moves = history(channel.store, last, trusted=channel.trusted)
    found = next((move.ref for move in moves if move.ref and move.ref.lock == lock), None)
    if found is None:
        raise _not_on_log(channel, str(lock))
    return found


def _not_on_log(channel: Channel, what: str) -> UsageError:
    hint = f"if it is the right lockfile: kernelforge promote {channel.name} sha256:..."
    return UsageError(f"{what} is not on the log of {channel.name}", hint=hint, where=channel.where)


def _next(
    channel: Channel, position: Position, lock: Digest, by: Mover, *, restored: int | None, back_to: int | None
) -> Ref:
    last, issued = position.ref, whole_seconds(by.now)
    return Ref(
        deployment=channel.deployment,
        channel=channel.channel,
        lock=lock,
        serial=1 if last is None else last.serial + 1,
        issued=issued,
        expires=issued + by.lifetime,
        previous=None if last is None else last.lock,
        restored=restored,
        back_to=back_to,
        actor=by.actor,
        reason=by.reason,
    )


def _move(channel: Channel, position: Position, ref: Ref, key: SigningKey) -> Moved:
    name, envelope = ref_name(ref.deployment, ref.channel), seal(ref.to_bytes(), PAYLOAD_TYPE, key)
    try:
        if position.version is None:
            channel.store.create(name, envelope)
        else:
            channel.store.replace(name, envelope, version=position.version)
    except (ObjectConflict, StoreUnavailable) as error:
        # An earlier try of this very write may have arrived although its answer did not.
        if not _did_move(channel, ref, envelope):
            raise _not_known(error) if isinstance(error, StoreUnavailable) else somebody_moved(channel) from error
    problem = record_move(channel.store, ref, envelope)
    return Moved(ref, (*position.warnings, problem) if problem else position.warnings)


def _did_move(channel: Channel, ref: Ref, envelope: bytes) -> bool:
    """Whether the channel points, or has pointed, at what we wanted, although the store said no or nothing."""
    try:
        if channel.store.get(ref_name(ref.deployment, ref.channel), limit_bytes=SIZE_LIMIT_BYTES) == envelope:
            return True
        # Who moves a channel on writes the move before onto the log, so ours is there if it took place.
        return read_move(channel.store, ref.deployment, ref.channel, ref.serial, trusted=channel.trusted) == ref
    except (StoreError, UntrustedLockfile) as error:
        _log.debug("no sign of serial %d of %s: %s", ref.serial, ref.name, error)
        return False


def _not_known(error: StoreUnavailable) -> StoreUnavailable:
    return StoreUnavailable(
        f"it is not known whether the channel was moved: {error.problem}",
        hint="see 'kernelforge promote --history'; to run the same command again does no harm",
        where=error.where,
    )
