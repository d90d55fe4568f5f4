"""Refs: which lockfile a channel points at, signed, and the only thing in a store that moves.

A ref says for which deployment and channel it is, so that a copy of it under another name is refused; it has a serial
that only grows and a last day, so that an old one that is put back is refused too. It also says all that the log of
moves needs: a log that lost its last line is written again from the ref. Knows nothing of what is in a lockfile, nor
of how a channel is moved.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kernelforge import json_values
from kernelforge.digest import Digest
from kernelforge.errors import (
    KernelForgeError,
    LockfileExpired,
    LockfileRolledBack,
    ObjectCorrupt,
    UntrustedLockfile,
    UsageError,
)
from kernelforge.release.envelope import open_envelope
from kernelforge.release.keys import PublicKey
from kernelforge.release.utc import read_utc, utc_text
from kernelforge.store import documents
from kernelforge.store.interface import ReadStore
from kernelforge.store.layout import ref_name

SCHEMA = "kernelforge.ref/1"
PAYLOAD_TYPE = "application/vnd.kernelforge.ref+json"
#: A ref with the longest texts has 5 KB; nothing larger is read.
SIZE_LIMIT_BYTES = 16 << 10
#: The names of a channel's log sort by serial, which has ten digits there.
MAX_SERIAL = 10**10 - 1
#: Long enough for a team to move or renew the channel in working hours.
EXPIRES_SOON = timedelta(days=14)
_TEXT_LIMIT = 500


@dataclass(frozen=True)
class Ref:
    """Where a channel points, since when, until when, and how that came about.

    ``serial`` is 1 for the first move of a channel and grows by 1 with each. ``previous`` is the lockfile that the
    channel pointed at before, None for the first. ``restored`` is the serial that a rollback went back to, None for a
    promotion. ``back_to`` is the serial to which a rollback from here goes: further back with every rollback, never to
    what was rolled back. ``actor`` and ``reason`` are for people, one line each.
    """

    deployment: str
    channel: str
    lock: Digest
    serial: int
    issued: datetime
    expires: datetime
    previous: Digest | None
    restored: int | None
    back_to: int | None
    actor: str
    reason: str

    def __post_init__(self) -> None:
        problem = _problem_with(self)
        if problem:
            raise UsageError(f"not a ref: {problem}", hint="see 'kernelforge promote --help'", where=self.name)

    @property
    def name(self) -> str:
        """``deployment/channel``."""
        return f"{self.deployment}/{self.channel}"

    @property
    def promoted(self) -> int:
        """The serial at which the lockfile was promoted: of a rollback, the one that it restored."""
        return self.serial if self.restored is None else self.restored

    def to_json(self) -> dict[str, documents.Json]:
        """The members of the document, in the order in which people read them."""
        return {
            "schema": SCHEMA,
            "deployment": self.deployment,
            "channel": self.channel,
            "serial": self.serial,
            "lock": str(self.lock),
            "issued": utc_text(self.issued),
            "expires": utc_text(self.expires),
            "previous": None if self.previous is None else str(self.previous),
            "restored": self.restored,
            "back_to": self.back_to,
            "actor": self.actor,
            "reason": self.reason,
        }

    def to_bytes(self) -> bytes:
        """What is signed."""
        return documents.to_bytes(self.to_json(), where=self.name)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Ref:
        """The inverse of ``to_json``; ``ValueError`` for anything else."""
        members = json_values.members(document, _MEMBERS)
        del members["schema"]
        try:
            return cls(**members)
        except UsageError as error:
            raise ValueError(error.problem) from error


def read_ref(store: ReadStore, deployment: str, channel: str, *, trusted: Sequence[PublicKey], now: datetime) -> Ref:
    """Where a channel points, if a trusted key signed that and it still holds.

    Raises ``ObjectMissing`` where the channel has never been moved, ``UntrustedLockfile`` for a ref that no trusted key
    signed or that is another channel's, ``LockfileExpired`` for one that is too old, and what ``get`` raises.
    """
    name = ref_name(deployment, channel)
    data = store.get(name, limit_bytes=SIZE_LIMIT_BYTES)
    ref = open_ref(data, deployment, channel, trusted=trusted, where=f"{store.location}: {name}")
    if now >= ref.expires:
        raise LockfileExpired(
            f"the channel's ref ended at {utc_text(ref.expires)}, and it is {utc_text(now)}",
            hint=f"promote the same lockfile once more: kernelforge promote {ref.name} {ref.lock}",
            where=f"{store.location}: {name}",
        )
    return ref


def check_serial(ref: Ref, seen: int, *, where: str) -> None:
    """``LockfileRolledBack`` for a ref that is older than one that was seen; ``seen`` is 0 where none was."""
    if ref.serial < seen:
        raise LockfileRolledBack(
            f"serial {ref.serial} of {ref.name} is older than serial {seen}, which was seen before",
            hint="somebody put an old ref back: find out who; a wanted rollback is 'kernelforge promote --rollback'",
            where=where,
        )


def expires_soon(ref: Ref, now: datetime) -> bool:
    """Whether people should be told that the channel must be moved or renewed."""
    return ref.expires - now < EXPIRES_SOON


def open_ref(data: bytes, deployment: str, channel: str, *, trusted: Sequence[PublicKey], where: str) -> Ref:
    """The ref in a signed envelope, whatever its age; ``UntrustedLockfile`` unless it is this channel's and trusted."""
    payload = open_envelope(data, payload_type=PAYLOAD_TYPE, trusted=trusted, where=where)
    ref = _read_payload(payload, where)
    if (ref.deployment, ref.channel) != (deployment, channel):
        raise UntrustedLockfile(
            f"this ref was signed for {ref.name}, not for {deployment}/{channel}",
            hint="somebody copied it here: look at who can write refs, then promote again",
            where=where,
            reason="misplaced",
        )
    return ref


def claimed_ref(data: bytes, *, where: str) -> Ref:
    """What an envelope says, without a look at its signature: to keep or to show it, never to load what it names."""
    try:
        envelope = json_values.mapping(json_values.parse(data))
        payload = base64.b64decode(json_values.text(envelope.get("payload")), validate=True)
    except ValueError as error:
        raise ObjectCorrupt(f"not a signed ref: {error}", hint="promote again", where=where) from error
    return _read_payload(payload, where)


def _read_payload(payload: bytes, where: str) -> Ref:
    try:
        return Ref.from_json(documents.from_bytes(payload, schema=SCHEMA, where=where))
    except (ValueError, ObjectCorrupt) as error:
        problem = error.problem if isinstance(error, KernelForgeError) else str(error)
        raise UntrustedLockfile(f"not a ref: {problem}", hint="promote again", where=where, reason="altered") from error


def _problem_with(ref: Ref) -> str:
    """What keeps the members from making sense together; empty if nothing does."""
    earlier = [serial for serial in (ref.restored, ref.back_to) if serial is not None]
    if not 1 <= ref.serial <= MAX_SERIAL:
        return f"serial {ref.serial} is not between 1 and {MAX_SERIAL}"
    if any(not 1 <= serial < ref.serial for serial in earlier):
        return f"serial {ref.serial} cannot go back to {earlier}"
    if ref.expires <= ref.issued:
        return f"it ends at {utc_text(ref.expires)}, before it begins"
    for what, text in (("actor", ref.actor), ("reason", ref.reason)):
        # They are shown in terminals, where a control character can rewrite what stands above.
        if len(text) > _TEXT_LIMIT or not text.isprintable():
            return f"the {what} must be one printable line of at most {_TEXT_LIMIT} characters"
    return ""


def _optional(read: Any) -> Any:
    return lambda value: None if value is None else read(value)


def _digest(value: Any) -> Digest:
    return Digest.parse(json_values.text(value))


_MEMBERS = {
    "schema": json_values.text,
    "deployment": json_values.text,
    "channel": json_values.text,
    "serial": json_values.integer,
    "lock": _digest,
    "issued": read_utc,
    "expires": read_utc,
    "previous": _optional(_digest),
    "restored": _optional(json_values.integer),
    "back_to": _optional(json_values.integer),
    "actor": json_values.text,
    "reason": json_values.text,
}
