"""A report back from its JSON: strict, because what a CI step shows must be what a build wrote.

Members that are missing, unknown or of another type, and totals that contradict the entries, are errors that say where.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kernelforge.errors import InputError
from kernelforge.reporting import SCHEMA, Expansion, Failure, Outcome, Report, ReportEntry

_T = TypeVar("_T")

# 100,000 entries with their failures; more is no report of ours.
SIZE_LIMIT_BYTES = 256 << 20


def parse_report(data: bytes, *, where: str) -> Report:
    """Read what ``Report.to_json`` gave; ``InputError`` at ``where`` for anything else."""
    document = _document(data, where)
    report = _report(_Members(document, where))
    totals = _Members(document["totals"], f"{where}: totals")
    for name, count in report.to_json()["totals"].items():
        if totals.take(name, _count) != count:
            raise _refused(f"{name} is {document['totals'][name]}, the entries come to {count}", f"{where}: totals")
    totals.end()
    if report.hits + report.misses + report.store_errors != report.keys:
        raise _refused(f"hits, misses and store errors do not come to {report.keys} keys", f"{where}: totals")
    return report


class _Members:
    """The members of one JSON object, each taken once."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise _refused(f"{value!r} is not an object", where)
        self._rest = dict(value)
        self._where = where

    def take(self, name: str, read: Callable[[Any, str], _T]) -> _T:
        if name not in self._rest:
            raise _refused(f"{name} is missing", self._where)
        return read(self._rest.pop(name), f"{self._where}: {name}")

    def end(self) -> None:
        if self._rest:
            raise _refused(f"{', '.join(sorted(self._rest))}: no such member", self._where)


def _document(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > SIZE_LIMIT_BYTES:
        raise _refused(f"{len(data)} bytes are no report, at most {SIZE_LIMIT_BYTES} are read", where)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused(f"not JSON: {error}", where) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise _refused(f"schema is {schema!r}, this version reads {SCHEMA}", where)
    assert isinstance(document, dict)
    return document


def _report(members: _Members) -> Report:
    members.take("schema", _text)
    totals = members.take("totals", _Members)
    seconds = members.take("seconds", _Members)
    traffic = members.take("bytes", _Members)
    lockfile = members.take("lockfile", _Members)
    report = Report(
        name=members.take("name", _text),
        command=members.take("command", _text),
        entries=members.take("entries", _tuple_of(_entry)),
        hits=totals.take("hits", _count),
        misses=totals.take("misses", _count),
        store_errors=totals.take("store_errors", _count),
        conflicts=totals.take("conflicts", _count),
        expansions=members.take("expansions", _tuple_of(_expansion)),
        wall_seconds=seconds.take("wall", _number),
        compile_cpu_seconds=seconds.take("compile_cpu", _number),
        saved_seconds=seconds.take("saved", _number),
        workers_started=members.take("workers_started", _count),
        bytes_read=traffic.take("read", _count),
        bytes_written=traffic.take("written", _count),
        requests=members.take("requests", _count),
        lockfile=lockfile.take("path", _text),
        lockfile_digest=lockfile.take("digest", _text),
        packs=members.take("packs", _map_of(_text)),
        notes=members.take("notes", _tuple_of(_text)),
    )
    for part in (members, seconds, traffic, lockfile):
        part.end()
    return report


def _entry(value: Any, where: str) -> ReportEntry:
    members = _Members(value, where)
    entry = ReportEntry(
        kernel=members.take("kernel", _text),
        compile_key=members.take("compile_key", _map_of(_anything)),
        target=members.take("target", _text),
        devices=members.take("devices", _tuple_of(_text)),
        key_digest=members.take("key_digest", _text),
        outcome=members.take("outcome", _outcome),
        reason=members.take("reason", _text),
        object_digest=members.take("object_digest", _text),
        seconds=members.take("seconds", _number),
        registers=members.take("registers", _optional(_count)),
        shared_memory_bytes=members.take("shared_memory_bytes", _optional(_count)),
        spill_bytes=members.take("spill_bytes", _optional(_count)),
        failure=members.take("failure", _optional(_failure)),
    )
    members.end()
    return entry


def _failure(value: Any, where: str) -> Failure:
    members = _Members(value, where)
    names = ("phase", "message", "source", "signal", "log_tail", "limit", "log")
    texts = {name: members.take(name, _text) for name in names}
    members.end()
    return Failure(**texts)


def _expansion(value: Any, where: str) -> Expansion:
    members = _Members(value, where)
    expansion = Expansion(
        kernel=members.take("kernel", _text),
        device=members.take("device", _text),
        points=members.take("points", _count),
        keys=members.take("keys", _count),
    )
    members.end()
    return expansion


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _refused(f"{value!r} is not a string", where)
    return value


def _count(value: Any, where: str) -> int:
    if type(value) is not int or value < 0:
        raise _refused(f"{value!r} is not a count", where)
    return value


def _number(value: Any, where: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
        raise _refused(f"{value!r} is not a number of seconds", where)
    return float(value)


def _outcome(value: Any, where: str) -> Outcome:
    known = [outcome.value for outcome in Outcome]
    if value not in known:
        raise _refused(f"{value!r} is not one of {', '.join(known)}", where)
    return Outcome(value)


def _anything(value: Any, where: str) -> Any:
    return value


def _optional(read: Callable[[Any, str], _T]) -> Callable[[Any, str], _T | None]:
    return lambda value, where: None if value is None else read(value, where)


def _tuple_of(read: Callable[[Any, str], _T]) -> Callable[[Any, str], tuple[_T, ...]]:
    def read_all(value: Any, where: str) -> tuple[_T, ...]:
        if not isinstance(value, list):
            raise _refused(f"{value!r} is not a list", where)
        return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(value))

    return read_all


def _map_of(read: Callable[[Any, str], _T]) -> Callable[[Any, str], dict[str, _T]]:
    def read_all(value: Any, where: str) -> dict[str, _T]:
        if not isinstance(value, Mapping):
            raise _refused(f"{value!r} is not an object", where)
        return {name: read(item, f"{where}.{name}") for name, item in value.items()}

    return read_all


def _refused(problem: str, where: str) -> InputError:
    return InputError(problem, hint=f"give what a command printed with --json ({SCHEMA})", where=where)
