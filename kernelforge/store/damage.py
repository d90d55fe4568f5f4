"""The list of damage: which objects of a store are known to be lost or altered. One document, the same for everybody.

A build does not ask for every object that its lockfile names, so whoever finds one damaged writes it down here
(``v1/quarantine/index.json``). The next build reads this with one request, looks at what is named, makes that again and
takes it off the list. Knows digests only; what happens to the damaged bytes is ``quarantine``'s.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernelforge import json_values
from kernelforge.digest import Digest
from kernelforge.errors import InputError, ObjectConflict, ObjectCorrupt, ObjectMissing
from kernelforge.store.documents import Json, from_bytes, to_bytes
from kernelforge.store.interface import ReadStore, WriteStore, moved_on
from kernelforge.store.layout import QUARANTINE_PREFIX

_log = logging.getLogger(__name__)

INDEX = f"{QUARANTINE_PREFIX}index.json"
SCHEMA = "kernelforge.quarantine/1"
#: One damaged object takes 300 bytes: a store that lost 100,000 of them is described in 30 MB.
SIZE_LIMIT_BYTES = 64 << 20
# Each try is lost to somebody else's change only, so somebody gets on.
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Damage:
    """What was found under the name of a digest: ``missing``, ``altered`` (other bytes) or ``unreadable`` (no bytes).

    ``when`` is UTC (``2027-01-31T09:30:00Z``), ``by`` what was at work, ``lock`` the lockfile that was being looked at.
    """

    found: str
    when: str
    by: str
    lock: Digest | None

    def __str__(self) -> str:
        return f"found {self.found} by {self.by} at {self.when}"


def read_damage(store: ReadStore) -> dict[Digest, Damage]:
    """Everything on the list, in one request; nothing where there is none.

    ``ObjectCorrupt`` if the list itself is damaged, and what ``get`` raises.
    """
    try:
        data = store.get(INDEX, limit_bytes=SIZE_LIMIT_BYTES)
    except ObjectMissing:
        return {}
    return _parse(data, where=f"{store.location}: {INDEX}")


def add_damage(store: WriteStore, found: Mapping[Digest, Damage]) -> None:
    """Put these on the list; a list that is itself damaged is begun again, with a warning in the log."""
    _change(store, added=found, dropped=())


def drop_damage(store: WriteStore, whole: Iterable[Digest]) -> None:
    """Take these off the list: they are there again, and right."""
    _change(store, added={}, dropped=tuple(whole))


def _change(store: WriteStore, *, added: Mapping[Digest, Damage], dropped: Iterable[Digest]) -> None:
    for _ in range(_TRIES):
        listed, version = _read_for_change(store)
        changed = {digest: damage for digest, damage in listed.items() if digest not in set(dropped)} | dict(added)
        if changed == listed:
            return
        try:
            if version is None:
                store.create(INDEX, _to_bytes(changed))
            else:
                store.replace(INDEX, _to_bytes(changed), version=version)
            return
        except ObjectConflict as error:
            _log.debug("the list of damage changed meanwhile, once more: %s", error)
    raise moved_on(f"{store.location}: {INDEX}")


def _read_for_change(store: WriteStore) -> tuple[dict[Digest, Damage], str | None]:
    try:
        data, version = store.get_versioned(INDEX, limit_bytes=SIZE_LIMIT_BYTES)
    except ObjectMissing:
        return {}, None
    try:
        return _parse(data, where=f"{store.location}: {INDEX}"), version
    except ObjectCorrupt as error:
        _log.warning("the list of damage is damaged and begun again; 'kernelforge verify --deep' fills it: %s", error)
        return {}, version


def _to_bytes(listed: Mapping[Digest, Damage]) -> bytes:
    objects: dict[str, Json] = {
        str(digest): {
            "found": damage.found,
            "when": damage.when,
            "by": damage.by,
            "lock": str(damage.lock) if damage.lock else None,
        }
        for digest, damage in listed.items()
    }
    return to_bytes({"schema": SCHEMA, "objects": objects}, where=INDEX)


def _parse(data: bytes, *, where: str) -> dict[Digest, Damage]:
    document = from_bytes(data, schema=SCHEMA, where=where)
    try:
        objects = json_values.members(document, _DOCUMENT)["objects"]
        return {Digest.parse(digest): Damage(**members) for digest, members in objects.items()}
    except (ValueError, InputError) as error:
        hint = "run 'kernelforge verify --deep' on the lockfiles in use: it is written again"
        raise ObjectCorrupt(f"not a list of damage: {error}", hint=hint, where=where) from error


def _digest_if_any(value: Any) -> Digest | None:
    return None if value is None else Digest.parse(json_values.text(value))


_DAMAGE = {"found": json_values.text, "when": json_values.text, "by": json_values.text, "lock": _digest_if_any}
_DOCUMENT = {
    "schema": json_values.text,
    "objects": json_values.values(lambda value: json_values.members(value, _DAMAGE)),
}
