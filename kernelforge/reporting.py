"""The data of a report (``kernelforge.report/1``): what hit, what missed and why, from CI and pods alike.

Values only. The builder and the loader fill them in, ``report/`` renders them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA = "kernelforge.report/1"


class Outcome(enum.Enum):
    """What became of a key. ``HIT`` is a plan's word before anything ran; a build turns it into ``REUSED``."""

    HIT = "hit"
    MISS = "miss"
    BUILT = "built"
    REUSED = "reused"
    FAILED = "failed"
    SKIPPED = "skipped"
    STORE_ERROR = "store_error"


@dataclass(frozen=True)
class Failure:
    """Why a key has no object: the phase, what happened, the line of the kernel's source, the end of the log.

    ``signal`` ended the process; ``limit`` ('seconds' or 'memory') was broken by it. ``log`` is the digest under which
    a store has all of the log.
    """

    phase: str
    message: str
    source: str = ""
    signal: str = ""
    log_tail: str = ""
    limit: str = ""
    log: str = ""


@dataclass(frozen=True)
class ReportEntry:
    """One (kernel, compile key, target). ``seconds`` are CPU seconds of the compile, recorded or spent now."""

    kernel: str
    compile_key: Mapping[str, Any]
    target: str
    devices: tuple[str, ...]
    key_digest: str
    outcome: Outcome
    reason: str
    object_digest: str = ""
    seconds: float = 0.0
    registers: int | None = None
    shared_memory_bytes: int | None = None
    spill_bytes: int | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Expansion:
    """How many points of the dispatch axes fell into how many keys, for one kernel on one device profile."""

    kernel: str
    device: str
    points: int
    keys: int


@dataclass(frozen=True)
class Report:
    """One plan or build. ``hits + misses + store_errors == keys`` always holds.

    ``conflicts``: results that differ from what was published for the same inputs; each has a note.
    """

    name: str
    command: str
    entries: tuple[ReportEntry, ...]
    hits: int
    misses: int
    store_errors: int
    conflicts: int = 0
    expansions: tuple[Expansion, ...] = ()
    wall_seconds: float = 0.0
    compile_cpu_seconds: float = 0.0
    saved_seconds: float = 0.0
    workers_started: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    requests: int = 0
    lockfile: str = ""
    lockfile_digest: str = ""
    packs: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def keys(self) -> int:
        """Number of distinct (kernel, compile key, target)."""
        return len(self.entries)

    def count(self, outcome: Outcome) -> int:
        """Number of entries with this outcome."""
        return sum(entry.outcome is outcome for entry in self.entries)

    def to_json(self) -> dict[str, Any]:
        """The document of schema ``kernelforge.report/1``."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "command": self.command,
            "totals": {
                "keys": self.keys,
                "hits": self.hits,
                "misses": self.misses,
                "built": self.count(Outcome.BUILT),
                "reused": self.count(Outcome.REUSED),
                "failed": self.count(Outcome.FAILED),
                "skipped": self.count(Outcome.SKIPPED),
                "store_errors": self.store_errors,
                "conflicts": self.conflicts,
            },
            "seconds": {
                "wall": round(self.wall_seconds, 3),
                "compile_cpu": round(self.compile_cpu_seconds, 3),
                "saved": round(self.saved_seconds, 3),
            },
            "bytes": {"read": self.bytes_read, "written": self.bytes_written},
            "requests": self.requests,
            "workers_started": self.workers_started,
            "expansions": [asdict(expansion) for expansion in self.expansions],
            "lockfile": {"path": self.lockfile, "digest": self.lockfile_digest},
            "packs": dict(self.packs),
            "notes": list(self.notes),
            "entries": [_entry_json(entry) for entry in self.entries],
        }


def _entry_json(entry: ReportEntry) -> dict[str, Any]:
    document = asdict(entry)
    document["outcome"] = entry.outcome.value
    document["devices"] = list(entry.devices)
    return document
