"""What lockfile and store say about one key. Which of the two is asked is ``decide``'s to say."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing, StoreError
from kernelforge.lockfile import LockedPack, Lockfile
from kernelforge.plan.reasons import why_missing
from kernelforge.plan.values import Decision, Hit, Miss, PlannedKey, StoreTrouble
from kernelforge.store.actions import ActionCache
from kernelforge.store.blobs import check_blob, get_blob
from kernelforge.store.damage import Damage
from kernelforge.store.interface import PruneStore

logger = logging.getLogger(__name__)


class Lookup:
    """``damage`` is the store's list of damage, None where it cannot be read: then everything is suspect."""

    def __init__(
        self,
        store: PruneStore,
        cache: ActionCache,
        lock: Lockfile | None,
        recorded: Mapping[str, Mapping[str, Any]],
        damage: Mapping[Digest, Damage] | None,
    ) -> None:
        self._store = store
        self._cache = cache
        self._lock = lock
        self._recorded = recorded
        self._damage = damage
        self._locked = {(entry.symbol, entry.target): entry for entry in lock.entries} if lock else {}

    def packs(self, keys: Sequence[PlannedKey]) -> dict[str, LockedPack]:
        """The lockfile's packs of the profiles that are asked for; empty if the store lacks any of them."""
        found = {}
        for device in sorted({device for key in keys for device in key.devices}):
            pack = self._lock.packs.get(device) if self._lock else None
            if pack is None:
                return {}
            try:
                self._check(pack.blob)
            except StoreError as error:  # any trouble is left to the look-up of each key
                logger.info("the lockfile's pack of %s cannot vouch for its keys: %s", device, error)
                return {}
            found[device] = pack
        return found

    def is_answered_by_lock(self, key: PlannedKey) -> bool:
        """Whether the lockfile has this very key."""
        entry = self._locked.get((key.symbol, key.target))
        return entry is not None and entry.key_digest == key.key_digest

    def is_suspect(self, key: PlannedKey) -> bool:
        """Whether the object that the lockfile has for the key may be lost."""
        return self._damage is None or self._locked[key.symbol, key.target].object.stored_digest in self._damage

    def locked_hit(self, key: PlannedKey) -> Hit:
        """The lockfile's answer."""
        entry = self._locked[key.symbol, key.target]
        facts = self._recorded.get(str(entry.key_digest), {})
        return Hit(entry.object, "in the lockfile, and the store has its pack", facts, self.seconds_before(key) or 0.0)

    def look_up(self, key: PlannedKey) -> Decision:
        """The action cache's answer."""
        decision = self._answer(key)
        if not isinstance(decision, Miss):
            return decision
        return replace(decision, earlier=self._with_other_sources(key))

    def seconds_before(self, key: PlannedKey) -> float | None:
        """What compiling the key took for the lockfile, whatever its sources and the compiler were then."""
        entry = self._locked.get((key.symbol, key.target))
        seconds = self._recorded.get(str(entry.key_digest), {}).get("seconds") if entry else None
        return float(seconds) if isinstance(seconds, (int, float)) else None

    def _with_other_sources(self, key: PlannedKey) -> Digest | None:
        """Key digest of the lockfile's entry, if sources are all that is known to differ; its record knows more."""
        entry = self._locked.get((key.symbol, key.target))
        if self._lock is None or entry is None or entry.key_digest == key.key_digest:
            return None
        before, now = self._lock.preimage_of(entry), key.preimage.to_json()
        differing = {label for label in before if before[label] != now[label]}
        return entry.key_digest if differing == {"source"} else None

    def _answer(self, key: PlannedKey) -> Decision:
        try:
            record = self._cache.get(key.key_digest)
        except ObjectMissing:
            return Miss(why_missing(key, self._lock, self._locked))
        except ObjectCorrupt as error:
            return Miss(f"the store's copy is damaged: {error.problem}")
        except StoreError as error:
            return StoreTrouble(error)
        if "object" not in record.outputs:
            return Miss("the store's record names no object")
        blob = record.outputs["object"]
        try:
            self._check(blob)
        except (ObjectMissing, ObjectCorrupt) as error:
            return Miss(self._why_lost(blob, error))
        except StoreError as error:
            return StoreTrouble(error)
        return Hit(blob, "in the action cache", record.facts, record.seconds)

    def _check(self, blob: Descriptor) -> None:
        """Ask for the size; read what is said to be damaged, since it may be there and wrong."""
        if self._damage and blob.stored_digest in self._damage:
            get_blob(self._store, blob)
        else:
            check_blob(self._store, blob)

    def _why_lost(self, blob: Descriptor, error: StoreError) -> str:
        state = "has lost" if isinstance(error, ObjectMissing) else "has damaged"
        known = (self._damage or {}).get(blob.stored_digest)
        return f"the store {state} the object that its record names" + (f" ({known})" if known else "")
