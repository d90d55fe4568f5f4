"""One pack per device profile: taken over where a pack of the same recipe is there, linked where not.

A recipe digests everything that decides a pack's bytes, so two profiles with equal objects share a pack, and so do two
builds. Objects are read only when something must be linked; those that cannot be had are handed back, not papered over.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from kernelforge.builder.link import Linker, find_linker
from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing
from kernelforge.lockfile import LockedPack
from kernelforge.store.actions import ActionCache, BuildRecord, PutOutcome
from kernelforge.store.blobs import check_blob, get_blob, put_blob
from kernelforge.store.faults import Fault
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import blob_name
from kernelforge.store.quarantine import Finder, set_aside
from kernelforge.target import Target

#: Device profile -> target, and objects by symbol.
Wanted = Mapping[str, tuple[Target, Mapping[str, Descriptor]]]

logger = logging.getLogger(__name__)

#: What a note about results that should have been equal begins with.
CONFLICT = "CONFLICT"
# One request of 30 ms each: 300 take 0.57 s with 32 threads.
_READING_THREADS = 32


class PackMaker:
    """``made`` are the packs by device profile; ``notes`` are the conflicts that came up."""

    def __init__(
        self, store: PruneStore, cache: ActionCache, locked: Mapping[str, LockedPack], damaged: Set[Digest]
    ) -> None:
        """``locked``: packs by device profile that the store has and whose lockfile this domain vouches for.

        ``damaged``: stored digests that were found damaged, and are read before they are relied on.
        """
        self._store = store
        self._cache = cache
        self._locked = locked
        self._damaged = damaged
        self._by_recipe: dict[Digest, LockedPack] = {}
        self.made: dict[str, LockedPack] = {}
        self.notes: list[str] = []

    def make(
        self, wanted: Mapping[str, tuple[Target, Mapping[str, Descriptor]]], folder: Path
    ) -> dict[Descriptor, Fault]:
        """Fill ``made`` for all that is wanted: device profile -> target, and objects by symbol.

        Returns the objects that must be linked and cannot be had; then ``made`` is not complete. Damaged ones among
        them were put into quarantine, so that what is built in their place is taken.
        """
        lost: dict[Descriptor, Fault] = {}
        for device, (target, objects) in wanted.items():
            linker = find_linker(target)
            recipe = linker.recipe([(symbol, blob.content_digest) for symbol, blob in objects.items()])
            pack = self._by_recipe.get(recipe) or self._known(device, target, linker, recipe)
            if pack is None:
                contents, missing = self._read(objects)
                lost |= missing
                pack = None if missing else self._link(target, linker, recipe, objects, contents, folder)
            if pack is not None:
                self.made[device] = self._by_recipe[recipe] = pack
        self._set_aside(lost)
        return lost

    def _known(self, device: str, target: Target, linker: Linker, recipe: Digest) -> LockedPack | None:
        """The pack of this recipe if the store has it, by the lockfile's word or the action cache's."""
        locked = self._locked.get(device)
        if locked is not None and locked.recipe == recipe:
            return locked
        try:
            pack = _locked_pack(target, linker, recipe, self._cache.get(recipe))
            check = get_blob if pack.blob.stored_digest in self._damaged else check_blob
            check(self._store, pack.blob)
            return pack
        except (ObjectMissing, ObjectCorrupt) as error:
            logger.info("linking the pack of %s: %s", device, error)
            return None

    def _read(self, objects: Mapping[str, Descriptor]) -> tuple[dict[str, bytes], dict[Descriptor, Fault]]:
        """Contents by symbol, and the objects that cannot be had."""

        def read(blob: Descriptor) -> bytes | Fault:
            try:
                return get_blob(self._store, blob)
            except (ObjectMissing, ObjectCorrupt) as error:
                return error

        with ThreadPoolExecutor(_READING_THREADS) as threads:
            found = dict(zip(objects, threads.map(read, objects.values()), strict=True))
        contents = {symbol: data for symbol, data in found.items() if isinstance(data, bytes)}
        return contents, {objects[symbol]: fault for symbol, fault in found.items() if not isinstance(fault, bytes)}

    def _set_aside(self, lost: Mapping[Descriptor, Fault]) -> None:
        """Damaged bytes out of the way: they have the right size, so their record would be taken for usable."""
        damaged = [blob_name(blob.stored_digest) for blob, fault in lost.items() if isinstance(fault, ObjectCorrupt)]
        set_aside(self._store, damaged, Finder("kernelforge build", datetime.now(timezone.utc)))

    def _link(
        self,
        target: Target,
        linker: Linker,
        recipe: Digest,
        objects: Mapping[str, Descriptor],
        contents: Mapping[str, bytes],
        folder: Path,
    ) -> LockedPack:
        linked = linker.link(list(contents.items()), Path(tempfile.mkdtemp(prefix="pack-", dir=folder)))
        blob = put_blob(self._store, linked.library)
        facts: dict[str, Any] = {"needed": list(linked.needed), "undefined": list(linked.undefined)}
        names = {symbol: str(content.content_digest) for symbol, content in objects.items()}
        preimage: dict[str, Any] = {"linker": linker.identity, "objects": names}
        record = BuildRecord(recipe, {"pack": blob}, facts, 0.0, preimage)
        if self._cache.put(record) is PutOutcome.CONFLICT:
            note = f"{CONFLICT}: recipe {recipe} linked to other bytes; the first pack stays, ours is kept as evidence"
            logger.warning(note)
            self.notes.append(note)
            record = self._cache.get(recipe)
        return _locked_pack(target, linker, recipe, record)


def _locked_pack(target: Target, linker: Linker, recipe: Digest, record: BuildRecord) -> LockedPack:
    facts: Mapping[str, Any] = record.facts
    try:
        needed, undefined = (tuple(facts[name]) for name in ("needed", "undefined"))
        return LockedPack(target, recipe, record.outputs["pack"], linker.identity, needed, undefined)
    except KeyError as error:
        hint = "delete the record, or use another --domain, and build again"
        raise ObjectCorrupt(f"the record of the pack has no {error}", hint=hint, where=str(recipe)) from error
