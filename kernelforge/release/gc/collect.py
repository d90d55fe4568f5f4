"""Garbage collection as a whole: ``survey`` says what would go, ``collect`` does it.

One run puts on the list what nothing needs, a later one deletes what is still on it: a mistake (a ref that was deleted,
a pin that is missing) can be seen and put right in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kernelforge.digest import Digest
from kernelforge.errors import SweepTooLarge
from kernelforge.release.gc.lease import hold_lease
from kernelforge.release.gc.mark import marks_of
from kernelforge.release.gc.plan import Candidate, Plan, make_plan
from kernelforge.release.gc.quarantine import MAX_CANDIDATES, Quarantine, read_quarantine, write_quarantine
from kernelforge.release.gc.retention import Retention
from kernelforge.release.gc.sweep import Swept, sweep
from kernelforge.store import marker
from kernelforge.store.interface import PruneStore
from kernelforge.store.named import Kind, named


@dataclass(frozen=True)
class Survey:
    """A plan by what comes next: ``due`` goes now, ``waiting`` is on the list since a time, ``new`` is not on it."""

    plan: Plan
    due: tuple[Candidate, ...]
    waiting: tuple[tuple[Candidate, float], ...]
    new: tuple[Candidate, ...]


@dataclass(frozen=True)
class Collection:
    """What a run did: it deleted from ``survey.due`` what ``swept`` says, and put ``survey.new`` on the list."""

    survey: Survey
    swept: Swept


def survey(store: PruneStore, retention: Retention, *, now_s: float) -> Survey:
    """What a run would do if it began now. Writes nothing. Raises what ``collect`` raises before it deletes."""
    marker.check(store)
    plan = make_plan(store, retention, now_s=now_s)
    return _sorted_out(store, plan, read_quarantine(store)[0], retention)


def collect(store: PruneStore, retention: Retention, *, now_s: Callable[[], float] = time.time) -> Collection:
    """One run. Interrupted at any point, it leaves a store that is whole, and the next one goes on from there.

    Raises ``SweepTooLarge`` and deletes nothing if more would go than ``allow_fraction``; ``SweepRefused`` if a root
    cannot be read, another run is at work or has taken over; and what the store raises.
    """
    marker.check(store)
    with hold_lease(store, now_s=now_s) as lease:
        plan = make_plan(store, retention, now_s=lease.started_s())
        listed, version = read_quarantine(store)
        found = _sorted_out(store, plan, listed, retention)
        check_share(found, retention, where=store.location)
        waiting = [*found.waiting, *((candidate, plan.now_s) for candidate in found.new)]
        # What is due stays on the list: if this run is interrupted, the next one need not wait again.
        kept = [(candidate, listed.since_s[candidate.name]) for candidate in found.due if _is_listed(candidate)]
        write_quarantine(store, [*kept, *waiting][:MAX_CANDIDATES], version=version)
        return Collection(found, sweep(store, plan, found.due, lease))


def check_share(found: Survey, retention: Retention, *, where: str) -> None:
    """``SweepTooLarge`` if what is due, or what is new, is more of the store than is allowed."""
    plan = found.plan
    for what, candidates in (("would be deleted", found.due), ("is newly unreachable", found.new)):
        counted = [candidate for candidate in candidates if _is_listed(candidate)]
        size_bytes = sum(candidate.size_bytes for candidate in counted)
        share = max(len(counted) / max(1, plan.objects), size_bytes / max(1, plan.size_bytes))
        if share > retention.allow_fraction:
            raise SweepTooLarge(
                f"{share:.0%} of the store {what}, allowed are {retention.allow_fraction:.0%}",
                hint="is a ref or a pin missing? if the plan ('kernelforge gc') is right, raise --allow-fraction",
                where=where,
            )


def _sorted_out(store: PruneStore, plan: Plan, listed: Quarantine, retention: Retention) -> Survey:
    due: list[Candidate] = []
    waiting: list[tuple[Candidate, float]] = []
    new: list[Candidate] = []
    for candidate in plan.candidates:
        since_s = listed.since(candidate)
        if not _is_listed(candidate) or (since_s is not None and plan.now_s >= since_s + retention.grace_s):
            due.append(candidate)
        elif since_s is None:
            new.append(candidate)
        else:
            waiting.append((candidate, since_s))
    staying = [candidate for candidate, _ in waiting] + new
    held = _held_by(store, [candidate for candidate in staying if candidate.kind is Kind.LOCK], due)
    waiting += [(candidate, listed.since_s[candidate.name]) for candidate in due if candidate.name in held]
    return Survey(plan, tuple(c for c in due if c.name not in held), tuple(waiting), tuple(new))


def _held_by(store: PruneStore, locks: list[Candidate], due: list[Candidate]) -> frozenset[str]:
    """Names of what is due but for a lockfile that is still to wait, and must not stand there without it.

    Its objects may be on the list for longer: it took them over, or was promoted for an hour, between two runs.
    """
    digests = [Digest(named(lock.name).digest.hex()) for lock in locks]
    marks = marks_of(store, digests, (candidate.name for candidate in due if candidate.kind is Kind.RECORD))
    return frozenset(c.name for c in due if marks.rank(c.kind, named(c.name).digest) is not None)


def _is_listed(candidate: Candidate) -> bool:
    """Whether it has to be on the list before it goes; announcements that nobody heeds any more do not."""
    return candidate.kind is not Kind.ANNOUNCEMENT
