"""Asks lockfile and store about keys. A deployment in which nothing changed costs one request per pack, not per key.

Per-key requests happen only when the lockfile cannot answer. Troubles of the store are decisions, never misses.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from kernelforge.errors import FormatUnknown, ObjectCorrupt, ObjectMissing, StoreError
from kernelforge.lockfile import LockedEntry, Lockfile
from kernelforge.plan.reasons import why_missing
from kernelforge.plan.values import Decision, Hit, Miss, PlannedKey, StoreTrouble
from kernelforge.store import marker
from kernelforge.store.actions import ActionCache
from kernelforge.store.blobs import check_blob
from kernelforge.store.interface import PruneStore
from kernelforge.target import Target

logger = logging.getLogger(__name__)

# One request of 30 ms each: 300 take 0.57 s with 32 threads.
_LOOKUP_THREADS = 32


def decide(
    keys: Sequence[PlannedKey],
    *,
    store: PruneStore,
    cache: ActionCache,
    lock: Lockfile | None,
    recorded: Mapping[str, Mapping[str, Any]],
) -> list[PlannedKey]:
    """The keys with their decisions; their old ones are not read."""
    trouble = _trouble_with(store)
    if trouble is not None:
        return [replace(key, decision=trouble) for key in keys]
    locked = {(entry.symbol, entry.target): entry for entry in lock.entries} if lock else {}
    if lock and all(_is_locked(key, locked) for key in keys) and _packs_are_there(lock, keys, store):
        return [replace(key, decision=_locked_hit(locked[key.symbol, key.target], recorded)) for key in keys]

    def look_up(key: PlannedKey) -> PlannedKey:
        return replace(key, decision=_look_up(key, cache, store, lock, locked))

    with ThreadPoolExecutor(_LOOKUP_THREADS) as threads:
        return list(threads.map(look_up, keys))


def _trouble_with(store: PruneStore) -> StoreTrouble | None:
    """Ask the store one thing before asking about every key: one that is down would cost each of them a deadline."""
    try:
        marker.check(store)
    except FormatUnknown:
        raise
    except StoreError as error:
        return StoreTrouble(error)
    return None


def _is_locked(key: PlannedKey, locked: Mapping[tuple[str, Target], LockedEntry]) -> bool:
    entry = locked.get((key.symbol, key.target))
    return entry is not None and entry.key_digest == key.key_digest


def _packs_are_there(lock: Lockfile, keys: Sequence[PlannedKey], store: PruneStore) -> bool:
    """Whether the store has the pack of every profile that is asked for; any trouble is left to the per-key path."""
    for device in {device for key in keys for device in key.devices}:
        if device not in lock.packs:
            return False
        try:
            check_blob(store, lock.packs[device].blob)
        except StoreError as error:
            logger.info("the lockfile's pack of %s cannot vouch for its keys: %s", device, error)
            return False
    return True


def _locked_hit(entry: LockedEntry, recorded: Mapping[str, Mapping[str, Any]]) -> Hit:
    facts = recorded.get(str(entry.key_digest), {})
    seconds = facts.get("seconds")
    known_s = float(seconds) if isinstance(seconds, (int, float)) else 0.0
    return Hit(entry.object, "in the lockfile, and the store has its pack", facts, known_s)


def _look_up(
    key: PlannedKey,
    cache: ActionCache,
    store: PruneStore,
    lock: Lockfile | None,
    locked: Mapping[tuple[str, Target], LockedEntry],
) -> Decision:
    try:
        record = cache.get(key.key_digest)
        if "object" not in record.outputs:
            return Miss("the store's record names no object")
        check_blob(store, record.outputs["object"])
    except ObjectMissing:
        return Miss(why_missing(key, lock, locked))
    except ObjectCorrupt as error:
        return Miss(f"the store's copy is damaged: {error.problem}")
    except StoreError as error:
        return StoreTrouble(error)
    return Hit(record.outputs["object"], "in the action cache", record.facts, record.seconds)
