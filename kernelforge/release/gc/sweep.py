"""Deletes what is due, in rounds: each is written down, hears all announcements, deletes some thousand objects at most.

A publisher that announces something while a sweep is at work therefore waits for one round, and not for the sweep.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from kernelforge.errors import ObjectConflict
from kernelforge.release.gc.lease import HeldLease
from kernelforge.release.gc.mark import Marks, heed, mark_records
from kernelforge.release.gc.parallel import in_parallel
from kernelforge.release.gc.plan import EVICTED, Candidate, Plan
from kernelforge.release.gc.roots import HELD, read_announcements
from kernelforge.store.interface import PruneStore
from kernelforge.store.named import Kind, named

_log = logging.getLogger(__name__)

#: Deletions in one round: a few seconds of them at 30 ms each.
_ROUND = 2_000


@dataclass
class Swept:
    """What became of what was due."""

    objects: int = 0
    size_bytes: int = 0
    #: Not deleted: announced, or changed, since the plan was made.
    spared: int = 0


def sweep(store: PruneStore, plan: Plan, due: Sequence[Candidate], lease: HeldLease) -> Swept:
    """Delete ``due``, which is in the order of deletion. ``SweepRefused`` when the lease is lost; run again then."""
    swept = Swept()
    heard = plan.roots.announcements
    for _, group in itertools.groupby(due, key=lambda candidate: candidate.kind):
        remaining = list(group)
        while remaining:
            lease.next_round()
            heard |= _hear(store, plan, due, heard)
            part = [candidate for candidate in remaining[:_ROUND] if _is_unneeded(candidate, plan.marks)]
            swept.spared += min(_ROUND, len(remaining)) - len(part)
            remaining = _delete(store, part, lease, swept) + remaining[_ROUND:]
    return swept


def _hear(store: PruneStore, plan: Plan, due: Sequence[Candidate], heard: frozenset[str]) -> frozenset[str]:
    """Mark what was announced meanwhile; the names of these announcements."""
    names = set()
    for name, announced in read_announcements(store, now_s=plan.now_s, known=heard):
        heed(store, plan.marks, announced)
        names.add(name)
    if names:
        records = (candidate for candidate in due if candidate.kind is Kind.RECORD)
        needed = [(candidate.name, HELD) for candidate in records if not _is_unneeded(candidate, plan.marks)]
        mark_records(store, plan.marks, needed)
    return frozenset(names)


def _is_unneeded(candidate: Candidate, marks: Marks) -> bool:
    rank = marks.rank(candidate.kind, named(candidate.name).digest)
    return rank is None or (rank > HELD and candidate.why == EVICTED)


def _delete(store: PruneStore, candidates: Sequence[Candidate], lease: HeldLease, swept: Swept) -> list[Candidate]:
    """Delete them; those that the round had no time for are returned."""

    def delete(candidate: Candidate) -> bool | None:
        if not lease.may_delete():
            return None
        try:
            store.delete(candidate.name, version=candidate.version)
        except ObjectConflict as error:
            _log.warning("spared, because it was changed meanwhile: %s", error)
            return False
        _log.debug("deleted %s: %s", candidate.name, candidate.why)
        return True

    late = []
    for candidate, is_gone in zip(candidates, in_parallel(delete, candidates), strict=True):
        if is_gone is None:
            late.append(candidate)
        elif is_gone:
            swept.objects += 1
            swept.size_bytes += candidate.size_bytes
        else:
            swept.spared += 1
    return late
