"""What is kept for its own sake: the lockfiles that refs, pins, recent moves, announcements and youth speak for.

Signatures are not checked here: a forged ref can only keep things. A ref, pin or move that cannot be read ends the
collection, because nobody knows what it keeps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kernelforge import json_values
from kernelforge.digest import Digest
from kernelforge.errors import (
    FormatUnknown,
    InputError,
    KernelForgeError,
    ObjectCorrupt,
    ObjectMissing,
    SweepRefused,
    UntrustedLockfile,
)
from kernelforge.release import moves, pins, refs
from kernelforge.release.gc.parallel import in_parallel
from kernelforge.release.gc.retention import YOUNG_S, Retention
from kernelforge.store.announcements import KEPT_S, PREFIX, Announced, read_announcement
from kernelforge.store.documents import from_bytes
from kernelforge.store.interface import PruneStore, StoredObject
from kernelforge.store.layout import LOCKS_PREFIX, PINS_PREFIX, REFS_LOG_PREFIX, REFS_PREFIX
from kernelforge.store.named import Kind, named

ReadT = TypeVar("ReadT")

#: The rank of what no limit takes away. Greater ones are of moves: 1 is the latest.
HELD = 0


@dataclass(frozen=True, slots=True)
class Root:
    """A lockfile that is kept, and the object that keeps it. ``is_required``: its absence is damage, not chance."""

    lock: Digest
    kept_by: str
    rank: int
    is_required: bool


@dataclass(frozen=True)
class Roots:
    """``locks`` are in the order of their ranks. ``moves`` are those that count, with the lockfile of each."""

    locks: tuple[Root, ...]
    blobs: frozenset[Digest]
    moves: dict[str, Digest]
    announcements: frozenset[str]


def find_roots(store: PruneStore, retention: Retention, *, now_s: float) -> Roots:
    """Every root; ``now_s`` is by the store's clock. ``SweepRefused`` if one cannot be read."""
    held = [*_listed_roots(store, REFS_PREFIX, _lock_of_ref), *_listed_roots(store, PINS_PREFIX, pins.parse_pin)]
    moved = _recent_moves(store, retention, now_s)
    announced = list(read_announcements(store, now_s=now_s, known=frozenset()))
    held += [Root(lock, name, HELD, False) for name, told in announced for lock in told.locks]
    held += _young_locks(store, now_s)
    held += [Root(move.lock, move.name, HELD, False) for move in moved if move.until_s > now_s - YOUNG_S]
    older = [move for move in moved if move.until_s <= now_s - YOUNG_S]
    ranked = [Root(move.lock, move.name, rank, False) for rank, move in enumerate(older, HELD + 1)]
    return Roots(
        locks=(*held, *ranked),
        blobs=frozenset(blob for _, told in announced for blob in told.blobs),
        moves={move.name: move.lock for move in moved},
        announcements=frozenset(name for name, _ in announced),
    )


def read_announcements(store: PruneStore, *, now_s: float, known: frozenset[str]) -> Iterator[tuple[str, Announced]]:
    """The announcements that are heeded still, but for the ``known`` ones."""
    for found in store.listed(PREFIX):
        if found.name not in known and found.modified_s > now_s - KEPT_S:
            told = _read(store, found.name, lambda name: read_announcement(store, name))
            if told is not None:
                yield found.name, told


def _listed_roots(store: PruneStore, prefix: str, lock_of: Callable[[bytes, str], Digest]) -> Iterator[Root]:
    for name in store.names(prefix):
        lock = _read(store, name, lambda name: _lock_in(store, name, lock_of))
        if lock is not None:
            yield Root(lock, name, HELD, True)


@dataclass(frozen=True, slots=True)
class _Move:
    """A line of a channel's log, what pods took from then on, and until when: now, or the time of the next move."""

    name: str
    lock: Digest
    until_s: float


def _recent_moves(store: PruneStore, retention: Retention, now_s: float) -> list[_Move]:
    """The moves that keep their lockfiles, the latest first."""
    since_s = now_s - max(retention.history_s, YOUNG_S)
    until_s: dict[str, float] = {}
    for moved in _logs(store).values():
        last = sorted(moved)[-retention.history_moves :] if retention.history_moves else ()
        ends_s = {serial: moved[serial + 1].modified_s if serial + 1 in moved else now_s for serial in moved}
        recent = (serial for serial in moved if ends_s[serial] > since_s)
        until_s.update((moved[serial].name, ends_s[serial]) for serial in (*last, *recent))
    ordered = sorted(until_s, key=lambda name: (-until_s[name], name))

    def lock_of(name: str) -> Digest | None:
        return _read(store, name, lambda name: _lock_in(store, name, _lock_of_move))

    read = in_parallel(lock_of, ordered)
    return [_Move(name, lock, until_s[name]) for name, lock in zip(ordered, read, strict=True) if lock is not None]


def _logs(store: PruneStore) -> dict[str, dict[int, StoredObject]]:
    """Channel -> serial -> line of its log."""
    logs: defaultdict[str, dict[int, StoredObject]] = defaultdict(dict)
    for found in store.listed(REFS_LOG_PREFIX):
        move = named(found.name)
        if move.kind is Kind.MOVE:
            logs[move.channel][move.serial] = found
    return logs


def _young_locks(store: PruneStore, now_s: float) -> Iterator[Root]:
    """Lockfiles beside which anything is new: itself, a signature made for a promotion, a companion."""
    found: dict[bytes, str] = {}
    for each in store.listed(LOCKS_PREFIX):
        digest = named(each.name).digest
        if digest and each.modified_s > now_s - YOUNG_S:
            found.setdefault(digest, each.name)
    for digest, name in found.items():
        yield Root(Digest(digest.hex()), name, HELD, False)


def _read(store: PruneStore, name: str, read: Callable[[str], ReadT]) -> ReadT | None:
    """What ``read`` makes of the object; None if it was deleted since it was listed."""
    try:
        return read(name)
    except ObjectMissing:
        return None
    except (ObjectCorrupt, FormatUnknown, UntrustedLockfile, InputError, ValueError) as error:
        problem = error.problem if isinstance(error, KernelForgeError) else str(error)
        raise SweepRefused(
            f"what it keeps is not known, so nothing is deleted: {problem}",
            hint="repair it, or delete it if it is not wanted (refs: 'kernelforge promote' writes a new one)",
            where=f"{store.location}: {name}",
        ) from error


def _lock_in(store: PruneStore, name: str, lock_of: Callable[[bytes, str], Digest]) -> Digest:
    return lock_of(store.get(name, limit_bytes=moves.SIZE_LIMIT_BYTES), f"{store.location}: {name}")


def _lock_of_ref(data: bytes, where: str) -> Digest:
    return refs.claimed_ref(data, where=where).lock


def _lock_of_move(data: bytes, where: str) -> Digest:
    document = from_bytes(data, schema=moves.SCHEMA, where=where)
    return Digest.parse(json_values.text(document.get("lock")))
