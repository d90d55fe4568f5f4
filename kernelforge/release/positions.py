"""Where a channel stands, found out before it is moved and after somebody else has moved it.

The ref says it; the log knows better where the ref was deleted or an old one was put back. On the way the last line of
the log is written if whoever moved the channel did not get that far. Knows nothing of how a channel is moved.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kernelforge.errors import ChannelMoved, ObjectCorrupt, ObjectMissing, UntrustedLockfile
from kernelforge.release.keys import PublicKey
from kernelforge.release.moves import last_move, read_move, record_move
from kernelforge.release.refs import SIZE_LIMIT_BYTES, Ref, claimed_ref, open_ref
from kernelforge.release.utc import utc_text
from kernelforge.store import marker
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import ref_name

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Channel:
    """A channel in a store, and whose word about it counts."""

    store: PruneStore
    deployment: str
    channel: str
    trusted: tuple[PublicKey, ...]

    @property
    def name(self) -> str:
        """``deployment/channel``."""
        return f"{self.deployment}/{self.channel}"

    @property
    def where(self) -> str:
        """Where its ref is, for error messages."""
        return f"{self.store.location}: {ref_name(self.deployment, self.channel)}"


@dataclass(frozen=True)
class Position:
    """Where a channel stands: its last move, and the version of the ref that was seen; both None if there is none."""

    ref: Ref | None
    version: str | None
    warnings: tuple[str, ...] = ()


def find_position(channel: Channel, *, repair: bool = True) -> Position:
    """Where the channel stands; ``repair``: write the last line of its log if that is missing.

    Raises ``UntrustedLockfile`` for a ref that no trusted key signed or that is another channel's, ``ChannelMoved`` if
    it is being moved at this moment, ``FormatUnknown`` for a store of another format, and what ``get`` raises. A ref
    that has ended is still where the channel stands.
    """
    store, name = channel.store, ref_name(channel.deployment, channel.channel)
    marker.check(store)
    try:
        envelope, version = store.get_versioned(name, limit_bytes=SIZE_LIMIT_BYTES)
    except ObjectMissing:
        return _without_ref(channel)
    ref = _open(channel, envelope)
    problem = record_move(store, ref, envelope) if repair else ""
    warnings = (problem,) if problem else ()
    if not _is_behind(channel, ref):
        return Position(ref, version, warnings)
    if store.get_versioned(name, limit_bytes=SIZE_LIMIT_BYTES)[1] != version:
        raise somebody_moved(channel)
    last = last_move(store, channel.deployment, channel.channel, trusted=channel.trusted)
    assert last is not None, "the line after this ref's was read a moment ago"
    put_back = f"an old ref was put back: it has serial {ref.serial}, and the log goes on to {_told(last)}"
    return Position(last, version, (*warnings, put_back))


def somebody_moved(channel: Channel) -> ChannelMoved:
    """The error for a channel that somebody else has moved meanwhile; says who, as far as that can be found out."""
    hint = f"talk to them, then see 'kernelforge promote --history {channel.name}' and decide again"
    try:
        envelope = channel.store.get(ref_name(channel.deployment, channel.channel), limit_bytes=SIZE_LIMIT_BYTES)
    except ObjectMissing:
        return ChannelMoved("somebody deleted its ref meanwhile", hint=hint, where=channel.where)
    try:
        told = _told(_open(channel, envelope))
    except UntrustedLockfile as error:
        told = f"{_told(claimed_ref(envelope, where=channel.where))} says a ref that is not trusted: {error.problem}"
    return ChannelMoved(f"somebody else moved {channel.name} first: {told}", hint=hint, where=channel.where)


def _told(ref: Ref) -> str:
    why = f" ({ref.reason})" if ref.reason else ""
    return f"serial {ref.serial} to {ref.lock} at {utc_text(ref.issued)} by {ref.actor}{why}"


def _open(channel: Channel, envelope: bytes) -> Ref:
    return open_ref(envelope, channel.deployment, channel.channel, trusted=channel.trusted, where=channel.where)


def _without_ref(channel: Channel) -> Position:
    last = last_move(channel.store, channel.deployment, channel.channel, trusted=channel.trusted)
    if last is None:
        return Position(None, None)
    return Position(last, None, (f"the ref of {channel.name} is gone; the log goes on to {_told(last)}",))


def _is_behind(channel: Channel, ref: Ref) -> bool:
    """Whether the log has a move after this ref's: another one just now, or an old ref that was put back."""
    try:
        read_move(channel.store, ref.deployment, ref.channel, ref.serial + 1, trusted=channel.trusted)
    except ObjectMissing:
        return False
    except (ObjectCorrupt, UntrustedLockfile) as error:
        _log.warning("left out of the log of %s: %s", channel.name, error)
        return False
    return True
