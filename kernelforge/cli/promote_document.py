"""What ``promote`` says of a channel: for programs as JSON, for people in a line for each move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from kernelforge.release.channels import Moved
from kernelforge.release.moves import Move
from kernelforge.release.refs import Ref, expires_soon
from kernelforge.release.utc import utc_text

MOVE_SCHEMA = "kernelforge.promotion/1"
HISTORY_SCHEMA = "kernelforge.history/1"


def moved_json(moved: Moved, *, is_dry_run: bool) -> dict[str, Any]:
    """The new ref, or what it would have been."""
    return {
        "schema": MOVE_SCHEMA,
        "dry_run": is_dry_run,
        "move": _ref_json(moved.ref),
        "warnings": list(moved.warnings),
    }


def moved_text(moved: Moved, *, is_dry_run: bool) -> str:
    """One line about it."""
    ref = moved.ref
    points = "would point" if is_dry_run else "points"
    before = "" if ref.previous is None else f", before at {_short(ref.previous)}"
    return f"{ref.name} {points} at {ref.lock} (serial {ref.serial}, until {utc_text(ref.expires)}{before})"


def history_json(moves: Sequence[Move], name: str, warnings: Sequence[str]) -> dict[str, Any]:
    """Every move, the latest first; ``move`` is null where its line cannot be trusted, and ``problem`` says why."""
    return {
        "schema": HISTORY_SCHEMA,
        "channel": name,
        "moves": [
            {
                "serial": move.serial,
                "move": None if move.ref is None else _ref_json(move.ref),
                "problem": move.problem,
            }
            for move in moves
        ],
        "warnings": list(warnings),
    }


def history_lines(moves: Sequence[Move]) -> Iterator[str]:
    """A line for each move."""
    for move in moves:
        if move.ref is None:
            yield f"{move.serial:>6}  not to be trusted: {move.problem}"
            continue
        ref = move.ref
        reason = f": {ref.reason}" if ref.reason else ""
        yield f"{ref.serial:>6}  {utc_text(ref.issued)}  {_short(ref.lock)}  {_kind(ref):<16}  by {ref.actor}{reason}"


def expiry_warning(ref: Ref, now: datetime) -> str:
    """What to do about a ref that ends soon or has ended; empty if there is time."""
    if not expires_soon(ref, now):
        return ""
    ends = "ended" if ref.expires <= now else "ends"
    again = f"renew it: kernelforge promote {ref.name} {ref.lock}"
    return f"the ref of {ref.name} {ends} at {utc_text(ref.expires)}, and pods that start then refuse it; {again}"


def _kind(ref: Ref) -> str:
    if ref.restored is not None:
        return f"rollback to {ref.restored}"
    return "renewed" if ref.previous == ref.lock else "promoted"


def _short(digest: Any) -> str:
    return f"sha256:{digest.short}..."


def _ref_json(ref: Ref) -> dict[str, Any]:
    return {name: value for name, value in ref.to_json().items() if name != "schema"}
