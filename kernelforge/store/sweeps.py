"""What publishers can see of garbage collection: one small document that says whether a sweep is deleting, and how far.

A sweep works in rounds. Round 0 only looks, and deletes nothing. Every later round is written down first, then all
announcements are read, then a bounded number of objects that none of them needs is deleted. So whoever writes an
announcement and then sees no sweep, or round 0, or the next round of the sweep that it saw, knows that from then on
nothing that it announced is deleted. That needs no common clock; clocks matter only for a sweep that died, whose lease
is over at ``ends_s``. Knows neither what is announced nor what is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelforge import json_values
from kernelforge.errors import ObjectCorrupt, ObjectMissing
from kernelforge.store.documents import Json, from_bytes, to_bytes
from kernelforge.store.interface import ReadStore
from kernelforge.store.layout import GC_PREFIX

LEASE = f"{GC_PREFIX}lease.json"
SCHEMA = "kernelforge.lease/1"
SIZE_LIMIT_BYTES = 4 << 10
#: How far the clocks of two machines may differ before one of them takes a sweep for dead that still runs.
CLOCKS_DIFFER_S = 60.0


@dataclass(frozen=True, slots=True)
class Lease:
    """``number`` counts the sweeps of a store, this one included; ``round`` is how far it is.

    ``ends_s`` is when its holder will have stopped deleting unless it has said more by then (seconds since 1970, by its
    own clock); None when it has ended its work.
    """

    number: int
    round: int
    holder: str
    ends_s: float | None

    def is_held(self, now_s: float) -> bool:
        """Whether its holder may still be at work."""
        return self.ends_s is not None and now_s < self.ends_s + CLOCKS_DIFFER_S

    def may_delete(self, now_s: float) -> bool:
        """Whether its holder may be deleting what was not announced when this round began."""
        return self.round > 0 and self.is_held(now_s)

    def to_bytes(self) -> bytes:
        """The document."""
        document: dict[str, Json] = {
            "schema": SCHEMA,
            "number": self.number,
            "round": self.round,
            "holder": self.holder,
            "ends_s": self.ends_s,
        }
        return to_bytes(document, where=LEASE)

    @classmethod
    def parse(cls, data: bytes, *, where: str) -> Lease:
        """Read what ``to_bytes`` wrote; ``ObjectCorrupt`` for anything else."""
        try:
            members = json_values.members(from_bytes(data, schema=SCHEMA, where=where), _MEMBERS)
        except ValueError as error:
            hint = "make sure that no 'kernelforge gc' runs on this store, then delete this object"
            raise ObjectCorrupt(f"not the lease of a sweep: {error}", hint=hint, where=where) from error
        return cls(members["number"], members["round"], members["holder"], members["ends_s"])


NEVER = Lease(0, 0, "", None)


def read_lease(store: ReadStore) -> Lease:
    """The last sweep's lease, in one request; ``NEVER`` where there was none."""
    try:
        data = store.get(LEASE, limit_bytes=SIZE_LIMIT_BYTES)
    except ObjectMissing:
        return NEVER
    return Lease.parse(data, where=f"{store.location}: {LEASE}")


def _seconds(value: object) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise ValueError(f"{value!r} is no time in seconds")
    return None if value is None else float(str(value))


_MEMBERS = {
    "schema": json_values.text,
    "number": json_values.integer,
    "round": json_values.integer,
    "holder": json_values.text,
    "ends_s": _seconds,
}
