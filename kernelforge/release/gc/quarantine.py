"""The list of what was found unreachable before: nothing is deleted that is not on it, unchanged, and long enough.

By the store's clock only, so it does not matter on which machine a run takes place. Knows no reasons: a run marks again
from scratch and asks this list only for how long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelforge import json_values
from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing, SweepRefused
from kernelforge.release.gc.plan import Candidate
from kernelforge.store.documents import Json, from_bytes, to_bytes
from kernelforge.store.interface import PruneStore, WriteStore
from kernelforge.store.layout import GC_PREFIX

NAME = f"{GC_PREFIX}quarantine.json"
SCHEMA = "kernelforge.gc-quarantine/1"
SIZE_LIMIT_BYTES = 256 << 20
#: What fits under the size limit; a run that finds more leaves the rest to the next ones.
MAX_CANDIDATES = 1_000_000


@dataclass(frozen=True)
class Quarantine:
    """``since_s`` is when each name was put on the list, ``version`` which object had it then."""

    since_s: Mapping[str, float]
    version: Mapping[str, str]

    def since(self, candidate: Candidate) -> float | None:
        """Since when this object is on the list; None if it is not, or another one had its name."""
        since_s = self.since_s.get(candidate.name)
        if since_s is None or self.version[candidate.name] != candidate.version or candidate.modified_s > since_s:
            return None
        return since_s


EMPTY = Quarantine({}, {})


def read_quarantine(store: PruneStore) -> tuple[Quarantine, str | None]:
    """The list and its version, which is None if there is none yet."""
    try:
        data, version = store.get_versioned(NAME, limit_bytes=SIZE_LIMIT_BYTES)
    except ObjectMissing:
        return EMPTY, None
    where = f"{store.location}: {NAME}"
    try:
        members = json_values.members(from_bytes(data, schema=SCHEMA, where=where), _MEMBERS)
    except ValueError as error:
        hint = "delete it: everything is found again, and waits again"
        raise ObjectCorrupt(f"not a list of candidates: {error}", hint=hint, where=where) from error
    since_s: dict[str, float] = {}
    versions: dict[str, str] = {}
    for batch in members["batches"]:
        since_s.update(dict.fromkeys(batch["objects"], batch["since_s"]))
        versions.update(batch["objects"])
    return Quarantine(since_s, versions), version


def write_quarantine(store: WriteStore, candidates: Iterable[tuple[Candidate, float]], *, version: str | None) -> None:
    """Replace the list that has ``version`` by these candidates, each with its time."""
    batches: dict[float, dict[str, Json]] = {}
    for candidate, since_s in candidates:
        batches.setdefault(since_s, {})[candidate.name] = candidate.version
    document: dict[str, Json] = {
        "schema": SCHEMA,
        "batches": [{"since_s": since_s, "objects": objects} for since_s, objects in sorted(batches.items())],
    }
    data = to_bytes(document, where=NAME)
    try:
        if version is None:
            store.create(NAME, data)
        else:
            store.replace(NAME, data, version=version)
    except ObjectConflict as error:
        hint = "run 'kernelforge gc' again when no other one runs"
        raise SweepRefused("another run has written the list meanwhile", hint=hint, where=error.where) from error


def _seconds(value: object) -> float:
    if not isinstance(value, float):
        raise ValueError(f"{value!r} is no time in seconds")
    return value


_BATCH = {"since_s": _seconds, "objects": json_values.values(json_values.text)}
_MEMBERS = {"schema": json_values.text, "batches": json_values.items(lambda value: json_values.members(value, _BATCH))}
