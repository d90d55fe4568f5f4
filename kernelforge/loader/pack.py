"""Where a pack's bytes come from: a path that the caller names and no other place, else in this order the read-only
mounts, the local cache, the store.

Whatever the place, the bytes that leave here have the sha256 that the lockfile records; nothing has been opened or run
before that. A damaged copy in a mount or the cache is passed over with a warning, and the cache's is replaced by what
the store delivers; a path that the caller named has to be right.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import (
    KernelForgeError,
    ObjectCorrupt,
    ObjectMissing,
    PackCorrupt,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from kernelforge.loader.cache import PackCache
from kernelforge.loader.file_access import FileBytes, read_file, why_from_memory
from kernelforge.loader.mounts import Mount
from kernelforge.loader.single_flight import fetch_turn
from kernelforge.loader.stats import PackSource, StepClock

if TYPE_CHECKING:
    from kernelforge.store.interface import ReadStore

_log = logging.getLogger(__name__)

# What is counted, see ``find_pack``.
DOWNLOADS, WAITED, WITHOUT_LOCK = "downloads", "waited", "without_lock"

_READ_ERRORS: tuple[tuple[type[OSError], type[StoreError]], ...] = (
    (FileNotFoundError, ObjectMissing),
    (PermissionError, StoreDenied),
)


@dataclass(frozen=True)
class Places:
    """Where to look. ``open_store`` is called when the store is needed; ``cache_setting`` says what chose the cache.

    ``wait_s``: how long another process of this node that fetches the same pack is waited for, before this one fetches
    it too. By default half of the 20 s in which a call to a store ends, so that the other half remains.
    """

    path: Path | None
    cache: PackCache | None
    cache_setting: str
    open_store: Callable[[], ReadStore] | None
    mounts: tuple[Mount, ...] = ()
    wait_s: float = 10.0


@dataclass(frozen=True)
class FoundPack:
    """Verified bytes. ``file`` may be opened in their stead; None: they have to be opened from memory.

    ``kept_at`` is a file that holds them, which others may be able to change.
    """

    data: FileBytes
    file: Path | None
    source: PackSource
    had_damaged_copy: bool = False
    kept_at: Path | None = None


def find_pack(blob: Descriptor, places: Places, clock: StepClock) -> FoundPack:
    """The first place that has the pack wins; what the store delivers is written to the cache.

    Counts in ``clock.counters``: ``downloads``; ``waited``, for another process's download; ``without_lock``, where the
    cache's file system has none; every error that did not stop the search.

    Raises ``PackCorrupt`` when the named path has other bytes; ``PackCorrupt`` or ``ObjectCorrupt`` when a mount or the
    cache has and no other place has the pack; ``ObjectMissing`` when no place has it; ``UnsafeCache`` for a cache that
    others can write to; ``StoreError`` for a named path that cannot be read, and as the store raises it.
    """
    if places.path is not None:
        return _named(places.path, blob, clock)
    search = _Search(blob, places, clock)
    return search.mounted() or search.cached() or search.fetched()


class _Search:
    """One search: what the places before this one had to say is remembered for the error and for the caller."""

    def __init__(self, blob: Descriptor, places: Places, clock: StepClock) -> None:
        self._blob = blob
        self._places = places
        self._clock = clock
        self._damage: KernelForgeError | None = None
        self._absences: list[str] = []

    def mounted(self) -> FoundPack | None:
        """The pack out of the first mount that has it."""
        for mount in self._places.mounts:
            with self._passed_over(f"the mount {mount}", logging.WARNING):
                with self._clock.step("read_pack"):
                    data, path = mount.read(self._blob)
                _check(data, self._blob, path or str(mount), self._clock)
                return self._found(data, path, "mount")
        return None

    def cached(self) -> FoundPack | None:
        """The pack out of the cache."""
        cache, content = self._places.cache, self._blob.content_digest
        if cache is None:
            self._absences.append(f"there is no cache folder ({self._places.cache_setting})")
            return None
        with self._passed_over(f"the cache ({self._places.cache_setting})", logging.DEBUG):
            with self._clock.step("read_pack"):
                data = cache.read(content, limit_bytes=self._blob.content_size_bytes + 1)
            path = os.path.realpath(cache.path_of(content))
            _check(data, self._blob, path, self._clock)
            return self._found(data, path, "cache")
        return None

    def fetched(self) -> FoundPack:
        """The pack out of the store, or out of the cache if another process has fetched it meanwhile."""
        open_store, cache = self._places.open_store, self._places.cache
        if open_store is None:
            raise self._damage or self._in_no_place()
        if cache is None or not self._can_be_prepared(cache):
            return self._download(open_store)
        with contextlib.ExitStack() as turn_ends:
            with self._clock.step("wait_for_turn"):
                lock_file = cache.lock_of(self._blob.content_digest)
                turn = turn_ends.enter_context(fetch_turn(lock_file, wait_s=self._places.wait_s))
            if turn.waited:
                self._clock.counters.add(WAITED)
            if turn.is_unlocked:
                self._clock.counters.add(WITHOUT_LOCK)
            # Somebody may have written it since we looked, also where nobody had the lock when we asked for it.
            return self._cached_meanwhile(cache) or self._download(open_store)

    def _cached_meanwhile(self, cache: PackCache) -> FoundPack | None:
        content = self._blob.content_digest
        try:
            data = cache.read(content, limit_bytes=self._blob.content_size_bytes + 1)
        except (OSError, PackCorrupt):  # as it was at the first look, which has noted it
            return None
        if Digest.of(data) != content:
            return None
        return self._found(data, os.path.realpath(cache.path_of(content)), "cache")

    @contextlib.contextmanager
    def _passed_over(self, place: str, level: int) -> Iterator[None]:
        """Errors in the block mean that the place does not give the pack: noted, counted, and the search goes on."""
        try:
            yield
        except (PackCorrupt, ObjectCorrupt) as error:
            _log.warning("the copy of a pack in %s is not used: %s", place, error)
            self._clock.counters.add_error(error)
            self._damage = error
        except (FileNotFoundError, ObjectMissing) as error:
            _log.debug("%s does not have the pack: %s", place, error)
            self._absences.append(f"{place} does not have it")
        except (OSError, StoreError) as error:
            _log.log(level, "%s cannot be read: %s", place, error)
            self._clock.counters.add_error(error)
            self._absences.append(f"{place} cannot be read: {error}")

    def _can_be_prepared(self, cache: PackCache) -> bool:
        try:
            cache.prepare()
        except OSError as error:  # it is written to once more after the fetch, which says so at a level that is seen
            _log.debug("fetching without a lock: %s", error)
            return False
        return True

    def _download(self, open_store: Callable[[], ReadStore]) -> FoundPack:
        with self._clock.step("fetch_pack"):
            from kernelforge.store.blobs import get_stored
            from kernelforge.store.unpack import unpack

            store = open_store()
            stored = get_stored(store, self._blob)
        self._clock.counters.add(DOWNLOADS)
        with self._clock.step("unpack"):

            def fill(file: BinaryIO) -> None:
                unpack(self._blob, stored, file.write, where=f"{store.location}: {self._blob.stored_digest}")

            kept = self._kept(fill)
            if kept is not None:
                return self._found(*kept, "store")
            in_memory = io.BytesIO()
            fill(in_memory)
            return self._found(in_memory.getvalue(), None, "store")

    def _kept(self, fill: Callable[[BinaryIO], None]) -> tuple[FileBytes, str] | None:
        """The pack and its file in the cache; None, with a warning, where there is no cache that can be written."""
        cache, content = self._places.cache, self._blob.content_digest
        if cache is None:
            _log.warning("the pack is opened from memory: there is no cache folder (%s)", self._places.cache_setting)
            return None
        try:
            path = os.path.realpath(cache.write(content, fill))
            return cache.read(content, limit_bytes=self._blob.content_size_bytes + 1), path
        except OSError as error:
            _log.warning("the pack is opened from memory: the cache folder cannot be written: %s", error)
            self._clock.counters.add_error(error)
            return None

    def _found(self, data: FileBytes, path: str | None, source: PackSource) -> FoundPack:
        return _found(data, path, source, had_damaged_copy=self._damage is not None)

    def _in_no_place(self) -> ObjectMissing:
        cache = self._places.cache
        return ObjectMissing(
            f"pack {self._blob.content_digest} is in no place: {'; '.join(self._absences)}; no store was given",
            hint="give store=, or bring the pack into the cache or a mount with 'kernelforge pull'",
            where=str(cache.path_of(self._blob.content_digest)) if cache else "",
        )


def _named(path: Path, blob: Descriptor, clock: StepClock) -> FoundPack:
    real_path = os.path.realpath(path)
    try:
        with clock.step("read_pack"):
            data = read_file(real_path, limit_bytes=blob.content_size_bytes + 1)
    except OSError as error:
        kind = next((ours for theirs, ours in _READ_ERRORS if isinstance(error, theirs)), StoreUnavailable)
        raise kind(
            f"the pack cannot be read: {error.strerror or error}", hint="check pack=", where=str(path)
        ) from error
    _check(data, blob, real_path, clock)
    return _found(data, real_path, "path")


def _check(data: FileBytes, blob: Descriptor, where: str, clock: StepClock) -> None:
    with clock.step("digest"):
        found = Digest.of(data)
    if found != blob.content_digest:
        raise PackCorrupt(
            f"the file has {found}, the lockfile's pack is {blob.content_digest} of {blob.content_size_bytes} bytes",
            hint="delete the file and fetch the pack again",
            where=where,
        )


def _found(data: FileBytes, path: str | None, source: PackSource, *, had_damaged_copy: bool = False) -> FoundPack:
    if path is None:
        return FoundPack(data, None, source, had_damaged_copy)
    reason = why_from_memory(path)
    if reason:
        _log.info("the pack is opened from memory: %s", reason)
    return FoundPack(data, None if reason else Path(path), source, had_damaged_copy, kept_at=Path(path))
