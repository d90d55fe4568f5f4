"""What garbage collection found and did, as documents: JSON with every name, tables with a row for each reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from kernelforge.release.gc.collect import Collection, Survey
from kernelforge.release.gc.plan import Candidate
from kernelforge.release.gc.retention import Retention
from kernelforge.release.pins import Pin
from kernelforge.release.utc import utc_text
from kernelforge.report.document import Column, Document, Table
from kernelforge.report.units import bytes_text, count_text

SCHEMA = "kernelforge.collection/1"
PINS_SCHEMA = "kernelforge.pins/1"

_COLUMNS = (
    Column("what", 17),
    Column("objects", 9, is_number=True),
    Column("bytes", 9, is_number=True),
    Column("when", 25),
    Column("why"),
)
_PIN_COLUMNS = (Column("pin", 20), Column("since", 20), Column("lockfile"))


def collection_json(found: Survey | Collection, retention: Retention, *, where: str) -> dict[str, Any]:
    """The whole of it; ``deleted`` is null for a plan."""
    survey = found if isinstance(found, Survey) else found.survey
    plan, swept = survey.plan, None if isinstance(found, Survey) else found.swept
    return {
        "schema": SCHEMA,
        "store": where,
        "at": _time_text(plan.now_s),
        "objects": plan.objects,
        "bytes": plan.size_bytes,
        "over_bytes": plan.over_bytes,
        "candidates": [
            {
                "name": candidate.name,
                "kind": candidate.kind.value,
                "bytes": candidate.size_bytes,
                "why": candidate.why,
                "state": state,
                "due": _time_text(due_s),
            }
            for state, candidate, due_s in _states(survey, retention)
        ],
        "deleted": swept and {"objects": swept.objects, "bytes": swept.size_bytes, "spared": swept.spared},
        "unknown": {"objects": plan.unknown_objects, "names": list(plan.unknown)},
    }


def collection_document(found: Survey | Collection, retention: Retention, *, where: str) -> Document:
    """For people: what, how much, when and why."""
    survey = found if isinstance(found, Survey) else found.survey
    plan, is_run = survey.plan, isinstance(found, Collection)
    waiting = [candidate for candidate, _ in survey.waiting]
    summary = [
        f"{count_text(plan.objects, 'object')}, {bytes_text(plan.size_bytes)} in the store",
        f"due {_total(survey.due)}; waiting {_total(waiting)}; newly unreachable {_total(survey.new)}",
    ]
    if isinstance(found, Collection):
        spared = f"; {count_text(found.swept.spared, 'object')} spared, needed or changed meanwhile"
        deleted = f"deleted {count_text(found.swept.objects, 'object')}, {bytes_text(found.swept.size_bytes)}"
        summary.append(deleted + (spared if found.swept.spared else ""))
    rows = tuple(_rows(_states(survey, retention), is_run=is_run))
    return Document(
        title=f"{where}: {'garbage collection' if is_run else 'plan of a garbage collection'}",
        summary=tuple(summary),
        tables=(Table("what nothing needs", _COLUMNS, rows),) if rows else (),
        notes=tuple(_notes(survey, is_run=is_run)),
    )


def pins_json(pins: Sequence[Pin], *, where: str) -> dict[str, Any]:
    """All pins."""
    listed = [{"name": pin.name, "lock": str(pin.lock), "pinned": utc_text(pin.pinned)} for pin in pins]
    return {"schema": PINS_SCHEMA, "store": where, "pins": listed}


def pins_document(pins: Sequence[Pin], *, where: str) -> Document:
    """All pins."""
    rows = tuple((pin.name, utc_text(pin.pinned), str(pin.lock)) for pin in pins)
    return Document(
        title=f"{where}: {count_text(len(pins), 'pin')}",
        summary=(),
        tables=(Table("kept for good", _PIN_COLUMNS, rows),) if rows else (),
    )


def _states(survey: Survey, retention: Retention) -> Iterator[tuple[str, Candidate, float]]:
    """Each candidate with its state and when it is due."""
    now_s = survey.plan.now_s
    yield from (("due", candidate, now_s) for candidate in survey.due)
    yield from (("waiting", candidate, since_s + retention.grace_s) for candidate, since_s in survey.waiting)
    yield from (("new", candidate, now_s + retention.grace_s) for candidate in survey.new)


def _rows(candidates: Iterable[tuple[str, Candidate, float]], *, is_run: bool) -> Iterator[tuple[str, ...]]:
    groups: dict[tuple[str, str, str], list[Candidate]] = {}
    for state, candidate, due_s in candidates:
        when = {"due": "now", "waiting": _time_text(due_s), "new": "a later run"}[state]
        if is_run:
            when = {"due": "deleted", "waiting": _time_text(due_s), "new": _time_text(due_s)}[state]
        groups.setdefault((when, candidate.kind.value, candidate.why), []).append(candidate)
    for (when, kind, why), alike in groups.items():
        size_bytes = sum(candidate.size_bytes for candidate in alike)
        yield kind, f"{len(alike):,}", bytes_text(size_bytes), when if when in _WORDS else f"from {when}", why


_WORDS = frozenset({"now", "deleted", "a later run"})


def _notes(survey: Survey, *, is_run: bool) -> Iterator[str]:
    plan = survey.plan
    if plan.unknown_objects:
        names = ", ".join(plan.unknown[:3]) + (", ..." if plan.unknown_objects > 3 else "")
        yield f"{count_text(plan.unknown_objects, 'object')} of unknown names, which are left alone: {names}"
    if not is_run and (survey.due or survey.new):
        yield "nothing was changed: --run deletes what is due now and puts what is newly unreachable on the list"
    if plan.candidates:
        yield "--json has every name"


def _total(candidates: Sequence[Candidate]) -> str:
    return f"{len(candidates):,} ({bytes_text(sum(candidate.size_bytes for candidate in candidates))})"


def _time_text(seconds: float) -> str:
    return utc_text(datetime.fromtimestamp(seconds, timezone.utc))
