"""How long things are kept: the numbers of garbage collection, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from kernelforge.errors import UsageError

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
#: What is younger is kept whatever names it: a publisher may be about to. By the store's clock.
YOUNG_S = DAY_S
#: Conflict records and quarantined damage are for people, who need time to look.
EVIDENCE_S = 90 * DAY_S


@dataclass(frozen=True)
class Retention:
    """``history_s`` and ``history_moves``: a move of a channel keeps its lockfile until so long after the next move, or
    while it is one of the channel's last. ``grace_s``: from being found unreachable to being deleted.
    ``allow_fraction``: the share of objects or bytes that may go in one run. ``max_bytes``: size of the store above
    which lockfiles go that only old moves keep, the oldest first; refs, pins and young objects stay.
    """

    history_s: float = 30 * DAY_S
    history_moves: int = 10
    grace_s: float = DAY_S
    allow_fraction: float = 0.2
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.history_s < 0 or self.history_moves < 0 or self.grace_s < 0:
            raise UsageError("nothing can be kept for less than no time", hint="give 0 or more")
        if not 0 <= self.allow_fraction <= 1:
            raise UsageError(f"{self.allow_fraction:g} is no share", hint="give a number from 0 to 1")
