"""What is left over: one pass over everything in the store, held against the marks, with a reason for each object.

Only what may have to go is kept in memory. Deletes nothing and writes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kernelforge.release.gc.mark import Marks, mark_records, mark_roots
from kernelforge.release.gc.retention import DAY_S, EVIDENCE_S, YOUNG_S, Retention
from kernelforge.release.gc.roots import HELD, Roots, find_roots
from kernelforge.store.announcements import KEPT_S
from kernelforge.store.interface import PruneStore, StoredObject
from kernelforge.store.named import Kind, Named, named

#: The order of deletion, the reverse of publishing: at no time does something stand there without what it names.
DELETED_IN_ORDER = (
    Kind.ANNOUNCEMENT,
    Kind.MOVE,
    Kind.SIGNATURE,
    Kind.COMPANION,
    Kind.LOCK,
    Kind.CONFLICT,
    Kind.RECORD,
    Kind.BLOB,
    Kind.EVIDENCE,
)
EVICTED = "only old moves of channels keep it, and the store is over its limit"
_UNREACHED = {
    Kind.BLOB: "no lockfile that is kept names it",
    Kind.RECORD: "no lockfile that is kept names its key",
    Kind.LOCK: "no ref, pin or recent move names it",
    Kind.SIGNATURE: "its lockfile is not kept",
    Kind.COMPANION: "its lockfile is not kept",
}
_UNKNOWN_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Candidate:
    """An object that nothing needs, as it was listed, and why that is so."""

    kind: Kind
    name: str
    size_bytes: int
    modified_s: float
    version: str
    why: str


@dataclass(frozen=True)
class Plan:
    """``objects`` and ``size_bytes`` are of the whole store; ``over_bytes`` is by how much what no limit takes away
    exceeds the limit. ``unknown`` are the first of ``unknown_objects`` names that are not of this layout.
    """

    now_s: float
    objects: int
    size_bytes: int
    candidates: tuple[Candidate, ...]
    over_bytes: int
    unknown_objects: int
    unknown: tuple[str, ...]
    roots: Roots
    marks: Marks


def make_plan(store: PruneStore, retention: Retention, *, now_s: float) -> Plan:
    """Mark from scratch, then look at everything. ``SweepRefused`` if what is needed cannot be found out."""
    roots = find_roots(store, retention, now_s=now_s)
    review = _Review(roots, mark_roots(store, roots), retention, now_s)
    for found in store.listed():
        review.look_at(found)
    mark_records(store, review.marks, review.records)
    return review.result()


@dataclass
class _Review:
    roots: Roots
    marks: Marks
    retention: Retention
    now_s: float
    objects: int = 0
    size_bytes: int = 0
    #: Name and rank of the records whose outputs are kept.
    records: list[tuple[str, int]] = field(default_factory=list)
    _gone: list[Candidate] = field(default_factory=list)
    _undecided: list[tuple[Named, StoredObject]] = field(default_factory=list)
    _sizes: Counter[int] = field(default_factory=Counter)
    _unknown_objects: int = 0
    _unknown: list[str] = field(default_factory=list)

    def look_at(self, found: StoredObject) -> None:
        """Decide about an object, or put it off until it is known what the records keep."""
        self.objects += 1
        self.size_bytes += found.size_bytes
        what = named(found.name)
        age_s = self.now_s - found.modified_s
        why = self._too_old(what, found.name, age_s)
        if why:
            self._gone.append(_candidate(what, found, why))
        elif what.kind in _UNREACHED and age_s >= YOUNG_S:
            self._look_up(what, found)
        elif what.kind is Kind.MOVE and found.name in self.roots.moves:
            self._undecided.append((what, found))
        else:
            self._hold(what, found)

    def result(self) -> Plan:
        """The plan, once every object was looked at and ``records`` are marked."""
        ranks = [self._rank(what, found) for what, found in self._undecided]
        for (_, found), rank in zip(self._undecided, ranks, strict=True):
            if rank is not None:
                self._sizes[rank] += found.size_bytes
        last = self._last_rank_kept()
        for (what, found), rank in zip(self._undecided, ranks, strict=True):
            if rank is None or rank > last:
                self._gone.append(_candidate(what, found, _UNREACHED[what.kind] if rank is None else EVICTED))
        order = {kind: position for position, kind in enumerate(DELETED_IN_ORDER)}
        self._gone.sort(key=lambda candidate: (order[candidate.kind], candidate.modified_s, candidate.name))
        return Plan(
            now_s=self.now_s,
            objects=self.objects,
            size_bytes=self.size_bytes,
            candidates=tuple(self._gone),
            over_bytes=int(max(0, self._sizes[HELD] - self._limit_bytes)),
            unknown_objects=self._unknown_objects,
            unknown=tuple(self._unknown),
            roots=self.roots,
            marks=self.marks,
        )

    @property
    def _limit_bytes(self) -> float:
        return float("inf") if self.retention.max_bytes is None else self.retention.max_bytes

    def _too_old(self, what: Named, name: str, age_s: float) -> str:
        """Why an object goes for its age alone; empty if it does not."""
        if what.kind is Kind.ANNOUNCEMENT and age_s >= KEPT_S:
            return "older than a day"
        if what.kind in (Kind.CONFLICT, Kind.EVIDENCE) and age_s >= EVIDENCE_S:
            return f"older than {EVIDENCE_S / DAY_S:.0f} days"
        history_s = max(self.retention.history_s, YOUNG_S)
        if what.kind is Kind.MOVE and age_s >= history_s and name not in self.roots.moves:
            moves = self.retention.history_moves
            return f"older than {history_s / DAY_S:g} days, and not among the last {moves} of its channel"
        return ""

    def _look_up(self, what: Named, found: StoredObject) -> None:
        rank = self.marks.rank(what.kind, what.digest)
        if rank is not None and what.kind is Kind.RECORD:
            self.records.append((found.name, rank))
        if rank == HELD or (rank is not None and self.retention.max_bytes is None):
            self._sizes[rank] += found.size_bytes
        else:
            self._undecided.append((what, found))

    def _hold(self, what: Named, found: StoredObject) -> None:
        self._sizes[HELD] += found.size_bytes
        if what.kind in (Kind.RECORD, Kind.CONFLICT):
            self.records.append((found.name, HELD))
        if what.kind is Kind.UNKNOWN:
            self._unknown_objects += 1
            if len(self._unknown) < _UNKNOWN_SHOWN:
                self._unknown.append(found.name)

    def _rank(self, what: Named, found: StoredObject) -> int | None:
        if what.kind is Kind.MOVE:
            lock = self.roots.moves[found.name]
            return self.marks.locks.get(bytes.fromhex(lock.hex), HELD)
        return self.marks.rank(what.kind, what.digest)

    def _last_rank_kept(self) -> float:
        """The rank up to which everything fits under the limit: the oldest moves give way first."""
        total = self._sizes[HELD]
        for rank in sorted(self._sizes):
            total += self._sizes[rank] if rank > HELD else 0
            if rank > HELD and total > self._limit_bytes:
                return rank - 1
        return float("inf")


def _candidate(what: Named, found: StoredObject, why: str) -> Candidate:
    return Candidate(what.kind, found.name, found.size_bytes, found.modified_s, found.version, why)
