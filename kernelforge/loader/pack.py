"""Where a pack's bytes come from: a path that the caller names, else the local cache, else the store.

Whatever the place, the bytes that leave here have the sha256 that the lockfile records; nothing has been opened or run
before that. A damaged copy in the cache is passed over with a warning and replaced by what the store delivers; a path
that the caller named has to be right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectMissing, PackCorrupt, StoreDenied, StoreError, StoreUnavailable
from kernelforge.loader.cache import PackCache
from kernelforge.loader.stats import PackSource, StepClock

if TYPE_CHECKING:
    from kernelforge.store.interface import ReadStore

_log = logging.getLogger(__name__)

_READ_ERRORS: tuple[tuple[type[OSError], type[StoreError]], ...] = (
    (FileNotFoundError, ObjectMissing),
    (PermissionError, StoreDenied),
)


@dataclass(frozen=True)
class Places:
    """Where to look. ``open_store`` is called when the store is needed; ``cache_setting`` says what chose the cache."""

    path: Path | None
    cache: PackCache | None
    cache_setting: str
    open_store: Callable[[], ReadStore] | None


@dataclass(frozen=True)
class FoundPack:
    """Verified bytes. ``file`` holds the same bytes on disk; None: they can only be opened from memory."""

    data: bytes
    file: Path | None
    source: PackSource
    had_damaged_copy: bool = False


def find_pack(blob: Descriptor, places: Places, clock: StepClock) -> FoundPack:
    """The first place that has the pack wins; what the store delivers is written to the cache.

    Raises ``PackCorrupt`` when the named path, or the cache with no store behind it, has other bytes; ``ObjectMissing``
    when no place has the pack; ``UnsafeCache`` for a cache that others can write to; ``StoreError`` for a named path
    that cannot be read, and as the store raises it.
    """
    if places.path is not None:
        return FoundPack(_read_path(places.path, blob, clock), places.path, "path")
    damage: PackCorrupt | None = None
    absence = "there is no cache folder"
    if places.cache is not None:
        try:
            return _read_cache(places.cache, blob, clock)
        except PackCorrupt as error:
            _log.warning("the cached copy of a pack is not used: %s", error)
            damage = error
        except OSError as error:
            _log.debug("the cache (%s) does not give the pack: %s", places.cache_setting, error)
            absence = str(error)
    if places.open_store is None:
        raise damage or _in_no_place(blob, places, absence)
    with clock.step("fetch_pack"):
        from kernelforge.store.blobs import get_blob

        data = get_blob(places.open_store(), blob)
    with clock.step("write_cache"):
        return FoundPack(data, _write_cache(data, blob, places), "store", had_damaged_copy=damage is not None)


def _read_path(path: Path, blob: Descriptor, clock: StepClock) -> bytes:
    try:
        with clock.step("read_pack"), open(path, "rb") as file:
            data = file.read(blob.content_size_bytes + 1)
    except OSError as error:
        kind = next((ours for theirs, ours in _READ_ERRORS if isinstance(error, theirs)), StoreUnavailable)
        raise kind(
            f"the pack cannot be read: {error.strerror or error}", hint="check pack=", where=str(path)
        ) from error
    _check(data, blob, path, clock)
    return data


def _read_cache(cache: PackCache, blob: Descriptor, clock: StepClock) -> FoundPack:
    path = cache.path_of(blob.content_digest)
    with clock.step("read_pack"):
        data = cache.read(blob.content_digest, limit_bytes=blob.content_size_bytes + 1)
    _check(data, blob, path, clock)
    return FoundPack(data, path, "cache")


def _check(data: bytes, blob: Descriptor, path: Path, clock: StepClock) -> None:
    with clock.step("digest"):
        found = Digest.of(data)
    if found != blob.content_digest:
        raise PackCorrupt(
            f"the file has {found}, the lockfile's pack is {blob.content_digest} of {blob.content_size_bytes} bytes",
            hint="delete the file and fetch the pack again",
            where=str(path),
        )


def _write_cache(data: bytes, blob: Descriptor, places: Places) -> Path | None:
    """Path of the pack in the cache; None, with a warning, where there is no cache that can be written."""
    if places.cache is None:
        _log.warning("the pack is opened from memory: there is no cache folder (%s)", places.cache_setting)
        return None
    try:
        return places.cache.write(blob.content_digest, data)
    except OSError as error:
        _log.warning("the pack is opened from memory: the cache folder cannot be written: %s", error)
        return None


def _in_no_place(blob: Descriptor, places: Places, absence: str) -> ObjectMissing:
    return ObjectMissing(
        f"pack {blob.content_digest} is not in the cache ({absence}; {places.cache_setting}), and no store was given",
        hint="give store=, or bring the pack into the cache with 'kernelforge pull'",
        where=str(places.cache.path_of(blob.content_digest)) if places.cache else "",
    )
