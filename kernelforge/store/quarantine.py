"""Takes damaged objects out of the way, with evidence: for objects whose name is the sha256 of their bytes.

    v1/quarantine/<named hex>/<found hex>.bin     the bytes that were found
    v1/quarantine/<named hex>/<found hex>.json    what is known about them (``kernelforge.damage/1``)

In this order: the bytes and the evidence are kept, the object goes on the list of damage, then it is deleted, if it
still is what was looked at. So a crash in between leaves an object that is listed and still there, and is deleted or
replaced later; never one that is gone without a word.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone

from kernelforge.digest import Digest
from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing
from kernelforge.store.damage import Damage, add_damage
from kernelforge.store.documents import to_bytes
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import QUARANTINE_PREFIX, digest_in

_log = logging.getLogger(__name__)

SCHEMA = "kernelforge.damage/1"
#: Of what is larger, only the size is kept. No object that is not damaged is larger than 1 GiB, and few than 64 MiB.
COPY_LIMIT_BYTES = 64 << 20
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Finder:
    """Who found damage: ``by`` names the work, ``lock`` is the lockfile that it was about, where there is one."""

    by: str
    when: datetime
    lock: Digest | None = None

    @property
    def when_text(self) -> str:
        """The time as documents spell it: UTC, to the second."""
        return self.when.astimezone(timezone.utc).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged object as it was found. ``evidence`` is the name of what was kept of it; empty if nothing was there."""

    name: str
    damage: Damage
    evidence: str
    version: str | None


def set_aside(store: PruneStore, names: Iterable[str], finder: Finder) -> dict[str, Damaged]:
    """Keep, list and delete those of the named objects that are damaged, and list those that are missing, by name.

    What turns out to be whole is left alone and not in the result. Raises what the store raises; ``StoreDenied`` where
    we may not write, and then nothing was deleted.
    """
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        looked = threads.map(lambda name: keep_evidence(store, name, finder), dict.fromkeys(names))
        found = {damaged.name: damaged for damaged in looked if damaged is not None}
    if found:
        add_damage(store, {_named(name): damaged.damage for name, damaged in found.items()})
    for damaged in found.values():
        remove(store, damaged)
    return found


def keep_evidence(store: PruneStore, name: str, finder: Finder) -> Damaged | None:
    """Copy what stands under the name of a digest, if it is not what the name promises; None if it is."""
    expected = _named(name)
    try:
        data, version = store.get_versioned(name, limit_bytes=COPY_LIMIT_BYTES)
    except ObjectMissing:
        return Damaged(name, _damage("missing", finder), "", None)
    except ObjectCorrupt as error:
        where = f"{QUARANTINE_PREFIX}{expected.hex}/unreadable.json"
        _create(store, where, _evidence(name, expected, None, None, finder, error.problem))
        return Damaged(name, _damage("unreadable", finder), where, None)
    found = Digest.of(data)
    if found == expected:
        return None
    where = f"{QUARANTINE_PREFIX}{expected.hex}/{found.hex}"
    _create(store, f"{where}.bin", data)
    _create(store, f"{where}.json", _evidence(name, expected, found, len(data), finder, "other bytes"))
    _log.warning("damaged: %s in %s; its bytes are kept as %s.bin", name, store.location, where)
    return Damaged(name, _damage("altered", finder), f"{where}.json", version)


def remove(store: PruneStore, damaged: Damaged) -> None:
    """Delete it, unless somebody has put something else in its place by now; that stays."""
    if damaged.damage.found == "missing":
        return
    try:
        store.delete(damaged.name, version=damaged.version)
    except ObjectConflict as conflict:
        _log.info("a damaged object was replaced by somebody else: %s", conflict)


def _create(store: PruneStore, name: str, data: bytes) -> None:
    try:
        store.create(name, data)
    except ObjectConflict:
        _log.debug("the same damage is on record already: %s", name)


def _named(name: str) -> Digest:
    digest = digest_in(name)
    assert digest is not None, f"{name} does not say which bytes it must have"
    return digest


def _damage(found: str, finder: Finder) -> Damage:
    return Damage(found, finder.when_text, finder.by, finder.lock)


def _evidence(
    name: str, expected: Digest, found: Digest | None, size_bytes: int | None, finder: Finder, problem: str
) -> bytes:
    return to_bytes(
        {
            "schema": SCHEMA,
            "name": name,
            "expected": str(expected),
            "found": str(found) if found else None,
            "size_bytes": size_bytes,
            "problem": problem,
            "when": finder.when_text,
            "by": finder.by,
            "lock": str(finder.lock) if finder.lock else None,
        },
        where=name,
    )
