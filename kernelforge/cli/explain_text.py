"""Explanations as lines of text: what each answer of ``kernelforge explain`` looks like to people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernelforge.cli.explained_keys import ExplainedArgument, ExplainedKey, ExplainedRequest
from kernelforge.cli.lock_difference import LockDifference
from kernelforge.report.units import count_text
from kernelforge.reporting import ReportEntry

NO_DIFFERENCE = "no differing field"
# Keys that alternate along an axis have a run for each of its values; the JSON form has them all.
_LONGEST_RUNS = 300


def keys_text(explained: Sequence[ExplainedRequest]) -> str:
    """Arguments and their origins, device facts that were asked for, and the points that lead to each key."""
    by_request: dict[tuple[str, tuple[ExplainedArgument, ...]], list[ExplainedRequest]] = defaultdict(list)
    for each in explained:
        by_request[each.kernel, each.arguments].append(each)
    lines: list[str] = []
    for (kernel, arguments), on_devices in by_request.items():
        lines += ["", kernel, "  arguments"]
        lines += _aligned((f"{each.name} = {each.value}", each.origin) for each in arguments)
        for each in on_devices:
            lines += _device_lines(each)
    return "\n".join(lines[1:])


def misses_text(missing: Sequence[ReportEntry], *, keys: int) -> str:
    """Every reason once, with the keys that miss because of it."""
    by_reason: dict[tuple[str, str], dict[tuple[str, str], list[ReportEntry]]] = defaultdict(lambda: defaultdict(list))
    for entry in missing:
        by_reason[entry.kernel, entry.target][entry.outcome.value, entry.reason].append(entry)
    lines = [f"{len(missing):,} of {count_text(keys, 'key')} would not be reused"]
    for (kernel, target), reasons in by_reason.items():
        lines += ["", f"{kernel} for {target}"]
        for (outcome, reason), entries in reasons.items():
            lines.append(f"  {outcome}: {reason} ({count_text(len(entries), 'entry')})")
            lines += [f"    {fields_text(entry.compile_key)}" for entry in entries]
    return "\n".join(lines)


def difference_text(difference: LockDifference) -> str:
    """Changed keys by what changed them, then what else differs; ``no differing field`` where nothing does."""
    by_reason: dict[tuple[str, str, str, tuple[str, ...]], list[Mapping[str, Any]]] = defaultdict(list)
    for change in difference.keys:
        by_reason[change.change, change.kernel, change.target, change.reasons].append(change.compile_key)
    lines: list[str] = []
    for (change_word, kernel, target, reasons), keys in by_reason.items():
        lines.append(f"{change_word}: {count_text(len(keys), 'key')} of {kernel} for {target}")
        lines += [f"  because: {reason}" for reason in reasons]
        lines += [f"  {fields_text(key)}" for key in keys]
    lines += [f"release: {text}" for text in difference.release]
    return "\n".join(lines) if lines else NO_DIFFERENCE


def fields_text(compile_key: Mapping[str, Any]) -> str:
    """``head_dim=128, dtype='bfloat16'``."""
    return ", ".join(f"{name}={value!r}" for name, value in compile_key.items()) or "(no fields)"


def _device_lines(request: ExplainedRequest) -> Iterator[str]:
    yield f"  on {request.device} ({request.target}): {request.points:,} -> {len(request.keys):,}"
    yield "    device facts that were asked for"
    yield from _aligned((f"  {name} = {value}", source) for name, (value, source) in request.facts.items())
    shared = _shared_fields(request.keys)
    yield f"    in all keys: {fields_text(shared)}"
    for key in request.keys:
        own = {name: value for name, value in key.compile_key.items() if name not in shared}
        yield f"    {key.symbol}: {fields_text(own)}"
        yield f"      from {count_text(key.points, 'point')}: {_shortened('; '.join(key.reached_by))}"


def _shortened(runs: str) -> str:
    if not runs:
        return "get_warmup_keys made it without dispatch"
    return runs if len(runs) <= _LONGEST_RUNS else f"{runs[:_LONGEST_RUNS].rpartition(', ')[0]}, ..."


def _aligned(pairs: Iterator[tuple[str, str]]) -> Iterator[str]:
    rows = list(pairs)
    width = max((len(left) for left, _ in rows), default=0)
    for left, right in rows or [("(none)", "")]:
        yield f"    {left:<{width}}  {right}".rstrip()


def _shared_fields(keys: Sequence[ExplainedKey]) -> dict[str, Any]:
    first = keys[0].compile_key
    # As text, because 1, 1.0 and True are equal in Python and different keys.
    return {
        name: value
        for name, value in first.items()
        if all(repr(key.compile_key.get(name)) == repr(value) for key in keys)
    }
