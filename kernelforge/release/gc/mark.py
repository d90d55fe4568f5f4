"""What follows from the roots: all that a kept lockfile needs, each with the rank of the root that needs it most.

A lockfile keeps its packs and objects, and by their key digests, recipes and its own digest the build records of every
domain; a kept record keeps what it names besides (cubins). Digests are held as 32 bytes: 100,000 of them with their
ranks take 15 MB.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelforge.digest import Digest
from kernelforge.errors import InputError, ObjectCorrupt, ObjectMissing, SweepRefused
from kernelforge.lockfile import Lockfile
from kernelforge.release.gc.parallel import in_parallel
from kernelforge.release.gc.roots import HELD, Root, Roots
from kernelforge.release.stored_lock import stored_lock
from kernelforge.store.actions import RECORD_LIMIT_BYTES, BuildRecord
from kernelforge.store.announcements import Announced
from kernelforge.store.interface import ReadStore
from kernelforge.store.layout import lock_name
from kernelforge.store.named import Kind, named

_log = logging.getLogger(__name__)

# They are read ahead, and the largest that is allowed has 64 MiB.
_LOCKS_AHEAD = 4


@dataclass(slots=True)
class Marks:
    """Digest -> rank, for each kind of thing that is kept for what names it."""

    locks: dict[bytes, int] = field(default_factory=dict)
    records: dict[bytes, int] = field(default_factory=dict)
    blobs: dict[bytes, int] = field(default_factory=dict)

    def rank(self, kind: Kind, digest: bytes) -> int | None:
        """The rank of what needs this; None if nothing does."""
        if kind is Kind.BLOB:
            return self.blobs.get(digest)
        if kind is Kind.RECORD:
            return self.records.get(digest)
        return self.locks.get(digest) if kind in (Kind.LOCK, Kind.SIGNATURE, Kind.COMPANION) else None

    def add_lock(self, digest: Digest, lock: Lockfile, rank: int) -> None:
        """Mark a lockfile and all that it names."""
        _mark(self.locks, digest, rank)
        _mark(self.records, digest, rank)  # of a domain that has published it
        for entry in lock.entries:
            _mark(self.records, entry.key_digest, rank)
            _mark(self.blobs, entry.object.stored_digest, rank)
        for pack in lock.packs.values():
            _mark(self.records, pack.recipe, rank)
            _mark(self.blobs, pack.blob.stored_digest, rank)

    def add_blobs(self, digests: Iterable[Digest], rank: int) -> None:
        """Mark stored digests."""
        for digest in digests:
            _mark(self.blobs, digest, rank)


def mark_roots(store: ReadStore, roots: Roots) -> Marks:
    """Marks of everything that the roots need, but for what only build records name: see ``mark_records``."""
    marks = Marks()
    marks.add_blobs(roots.blobs, HELD)
    first: dict[Digest, Root] = {}
    for root in roots.locks:
        if root.lock not in first or (root.is_required and not first[root.lock].is_required):
            first[root.lock] = root
    # A required root has no rank but ``HELD``, so this is the order of ranks still.
    wanted = sorted(first.values(), key=lambda root: root.rank)
    locks = in_parallel(lambda root: _read_root(store, root), wanted, results_ahead=_LOCKS_AHEAD)
    for root, data in zip(wanted, locks, strict=True):
        if data is None:
            _log.warning("%s names %s, which is not in the store", root.kept_by, root.lock)
        else:
            marks.add_lock(root.lock, _parse(store, root.lock, data), root.rank)
    return marks


def heed(store: ReadStore, marks: Marks, announced: Announced) -> None:
    """Mark what an announcement names that was made after the roots were read."""
    marks.add_blobs(announced.blobs, HELD)
    for lock in announced.locks:
        data = _read(store, lock)
        if data is not None:
            marks.add_lock(lock, _parse(store, lock, data), HELD)


def marks_of(store: ReadStore, locks: Iterable[Digest], records: Iterable[str]) -> Marks:
    """Marks of what these lockfiles name, and of the outputs of those of the ``records`` that they name.

    For lockfiles that nothing keeps, so that one that cannot be read stops nothing and keeps nothing.
    """
    marks = Marks()
    for lock in locks:
        try:
            heed(store, marks, Announced(frozenset((lock,)), frozenset()))
        except SweepRefused as error:
            _log.warning("a lockfile that nothing needs keeps nothing: %s", error)
    named_by_locks = [name for name in records if marks.rank(Kind.RECORD, named(name).digest) is not None]
    mark_records(store, marks, ((name, HELD) for name in named_by_locks))
    return marks


def mark_records(store: ReadStore, marks: Marks, records: Iterable[tuple[str, int]]) -> None:
    """Mark the outputs of build records, given by name and rank.

    A record that cannot be read answers nobody, so it keeps nothing.
    """

    def read(record: tuple[str, int]) -> tuple[Iterable[Digest], int]:
        return _outputs(store, record[0]), record[1]

    for outputs, rank in in_parallel(read, records):
        marks.add_blobs(outputs, rank)


def _read_root(store: ReadStore, root: Root) -> bytes | None:
    data = _read(store, root.lock)
    if data is None and root.is_required:
        raise SweepRefused(
            f"names {root.lock}, which is not in the store: damage, so nothing is deleted",
            hint="publish that lockfile again, or point at another one",
            where=f"{store.location}: {root.kept_by}",
        )
    return data


def _read(store: ReadStore, digest: Digest) -> bytes | None:
    try:
        return stored_lock(store, digest)
    except ObjectMissing:
        return None
    except ObjectCorrupt as error:
        raise _unreadable(store, digest, error.problem) from error


def _parse(store: ReadStore, digest: Digest, data: bytes) -> Lockfile:
    try:
        return Lockfile.parse(data)
    except InputError as error:
        raise _unreadable(store, digest, error.problem) from error


def _unreadable(store: ReadStore, digest: Digest, problem: str) -> SweepRefused:
    return SweepRefused(
        f"a lockfile that is needed cannot be read, so nothing is deleted: {problem}",
        hint="if a newer kernelforge wrote it, update this one; else run 'kernelforge verify --deep' on it",
        where=f"{store.location}: {lock_name(digest)}",
    )


def _outputs(store: ReadStore, name: str) -> tuple[Digest, ...]:
    where = f"{store.location}: {name}"
    key_digest = Digest(named(name).digest.hex())
    try:
        record = BuildRecord.parse(store.get(name, limit_bytes=RECORD_LIMIT_BYTES), key_digest=key_digest, where=where)
    except (ObjectMissing, ObjectCorrupt) as error:
        _log.warning("a build record keeps nothing: %s", error)
        return ()
    return tuple(blob.stored_digest for blob in record.outputs.values())


def _mark(marks: dict[bytes, int], digest: Digest, rank: int) -> None:
    key = bytes.fromhex(digest.hex)
    if marks.setdefault(key, rank) > rank:
        marks[key] = rank
