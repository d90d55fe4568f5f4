"""Counts what a store holds: by kind, by release, what releases share, and what nothing refers to.

One listing and every lockfile are read, no blob. Memory grows with the blobs that lockfiles name, 32 bytes each, not
with the objects in the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kernelforge.digest import Digest
from kernelforge.lockfile import Lockfile
from kernelforge.release.stored_lock import stored_lock
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import LOCKS_PREFIX
from kernelforge.store.named import Kind, named


@dataclass(frozen=True)
class ReleaseSize:
    """One lockfile: bytes of all blobs that it names, each once, and of those that no earlier lockfile names."""

    lock: Digest
    name: str
    written_s: float
    blob_bytes: int
    new_bytes: int


@dataclass(frozen=True)
class Census:
    """``objects`` and ``size_bytes`` by kind; ``releases`` in the order in which they were written.

    ``unreferenced_blobs`` and their bytes: blobs that no lockfile names, such as cubins, or objects of builds that were
    not locked. ``shared_bytes``: what the releases would take beyond this if none shared a blob with another.
    """

    objects: Mapping[Kind, int]
    size_bytes: Mapping[Kind, int]
    releases: tuple[ReleaseSize, ...]
    unreferenced_blobs: int
    unreferenced_bytes: int

    @property
    def shared_bytes(self) -> int:
        """Bytes that sharing saves."""
        return sum(release.blob_bytes - release.new_bytes for release in self.releases)


def take_census(store: PruneStore) -> Census:
    """Count everything; raises ``StoreError``, and ``LockfileError`` for a lockfile that is none."""
    releases, referenced = _releases(store)
    objects: Counter[Kind] = Counter()
    size_bytes: Counter[Kind] = Counter()
    loose = loose_bytes = 0
    for each in store.listed():
        what = named(each.name)
        objects[what.kind] += 1
        size_bytes[what.kind] += each.size_bytes
        if what.kind is Kind.BLOB and what.digest not in referenced:
            loose, loose_bytes = loose + 1, loose_bytes + each.size_bytes
    return Census(objects, size_bytes, releases, loose, loose_bytes)


def _releases(store: PruneStore) -> tuple[tuple[ReleaseSize, ...], frozenset[bytes]]:
    locks = [
        (each.modified_s, Digest(named(each.name).digest.hex()))
        for each in store.listed(LOCKS_PREFIX)
        if named(each.name).kind is Kind.LOCK
    ]
    seen: set[bytes] = set()
    releases = []
    for written_s, digest in sorted(locks, key=lambda lock: (lock[0], lock[1].hex)):
        lock = Lockfile.parse(stored_lock(store, digest), where=f"{store.location}: {digest}")
        sizes = {bytes.fromhex(blob.stored_digest.hex): blob.stored_size_bytes for blob in lock.blobs}
        new_bytes = sum(size for name, size in sizes.items() if name not in seen)
        seen |= sizes.keys()
        releases.append(ReleaseSize(digest, lock.name, written_s, sum(sizes.values()), new_bytes))
    return tuple(releases), frozenset(seen)
