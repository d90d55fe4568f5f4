"""The log of a channel: every move, written once, so that people see who moved it and a rollback knows where to.

A line of the log is the ref of that move with its signature, so what the log says is as good as the ref was. The ref
is the truth and the log follows: it is written after the ref, and who finds its last line missing writes it from the
ref. Lines go away with age, the oldest first. Knows nothing of how a channel is moved.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kernelforge import json_values
from kernelforge.errors import ObjectCorrupt, ObjectMissing, StoreError, UntrustedLockfile
from kernelforge.release.keys import PublicKey
from kernelforge.release.refs import Ref, open_ref
from kernelforge.store import documents
from kernelforge.store.interface import PruneStore, ReadStore, WriteStore
from kernelforge.store.layout import REFS_LOG_PREFIX, ref_log_name

SCHEMA = "kernelforge.move/1"
#: The ref with the longest texts in it twice, once in base64, has 12 KB.
SIZE_LIMIT_BYTES = 48 << 10
_READS_AT_ONCE = 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Move:
    """One line of the log. ``problem`` says why ``ref`` cannot be had or trusted; empty if nothing is wrong."""

    serial: int
    ref: Ref | None
    problem: str = ""


def move_bytes(ref: Ref, envelope: bytes) -> bytes:
    """The line of the log for a ref and its signed bytes; the same for whoever writes it."""
    document = {**ref.to_json(), "schema": SCHEMA, "ref": json_values.parse(envelope)}
    return documents.to_bytes(document, where=ref.name)


def record_move(store: WriteStore, ref: Ref, envelope: bytes) -> str:
    """See to it that a move is on the log; why it is not, empty if it is.

    The channel has moved already, so trouble here must not look as if it had not. The next move tries again.
    """
    try:
        if store.create(ref_log_name(ref.deployment, ref.channel, ref.serial), move_bytes(ref, envelope)):
            _log.info("serial %d of %s is on the log", ref.serial, ref.name)
    except StoreError as error:
        return f"serial {ref.serial} of {ref.name} is not on the log: {error}"
    return ""


def read_move(store: ReadStore, deployment: str, channel: str, serial: int, *, trusted: Sequence[PublicKey]) -> Ref:
    """The ref of one move, signed by a trusted key.

    Raises ``ObjectMissing``, ``ObjectCorrupt``, ``UntrustedLockfile``, ``FormatUnknown``, and what ``get`` raises.
    """
    name = ref_log_name(deployment, channel, serial)
    where = f"{store.location}: {name}"
    data = store.get(name, limit_bytes=SIZE_LIMIT_BYTES)
    document = documents.from_bytes(data, schema=SCHEMA, where=where)
    envelope = documents.to_bytes(_signed_part(document, where), where=where)
    ref = open_ref(envelope, deployment, channel, trusted=trusted, where=where)
    del document["ref"]
    # People and collectors read the plain members, so these must not say anything else.
    if ref.serial != serial or document != {**ref.to_json(), "schema": SCHEMA}:
        problem = f"does not say what was signed, which is serial {ref.serial} to {ref.lock}"
        raise UntrustedLockfile(problem, hint=_HINT, where=where, reason="altered")
    return ref


def history(store: ReadStore, current: Ref, *, trusted: Sequence[PublicKey]) -> Iterator[Move]:
    """The moves before ``current``, the latest first, as far as the log reaches back.

    A line that is damaged or that no trusted key signed is among them, with its problem. Serials that have no line are
    left out; where ``_READS_AT_ONCE`` in a row have none, the log ends.
    """

    def read(serial: int) -> Move | None:
        try:
            return Move(serial, read_move(store, current.deployment, current.channel, serial, trusted=trusted))
        except ObjectMissing:
            return None
        except (ObjectCorrupt, UntrustedLockfile) as error:
            return Move(serial, None, str(error))

    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        for top in range(current.serial - 1, 0, -_READS_AT_ONCE):
            found = [move for move in pool.map(read, range(top, max(0, top - _READS_AT_ONCE), -1)) if move]
            yield from found
            if not found:
                return


def last_move(store: PruneStore, deployment: str, channel: str, *, trusted: Sequence[PublicKey]) -> Ref | None:
    """The latest move on the log that a trusted key signed; None if there is none. Lists the channel's log."""
    names = sorted(store.names(f"{REFS_LOG_PREFIX}{deployment}/{channel}/"), reverse=True)
    for name in names:
        serial = name.rpartition("/")[2].removesuffix(".json")
        try:
            return read_move(store, deployment, channel, int(serial), trusted=trusted)
        except (ValueError, ObjectMissing, ObjectCorrupt, UntrustedLockfile) as error:
            _log.warning("left out of the log of %s/%s: %s: %s", deployment, channel, name, error)
    return None


_HINT = "the log was altered: look at who can write to it; the ref itself is not concerned"


def _signed_part(document: dict[str, Any], where: str) -> dict[str, Any]:
    try:
        return json_values.mapping(document.get("ref"))
    except ValueError as error:
        raise ObjectCorrupt(f"no signed ref in it: {error}", hint=_HINT, where=where) from error
