"""Asks lockfile and store about keys. A deployment in which nothing changed costs one request per pack, not per key.

A lockfile answers for its keys if a build of this domain has published it and the store has its packs; only what is on
the store's list of damage is looked at all the same. Per-key requests happen when the lockfile cannot answer. Troubles
of the store are decisions, never misses.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from kernelforge.digest import Digest
from kernelforge.errors import FormatUnknown, ObjectCorrupt, StoreError
from kernelforge.lockfile import Lockfile
from kernelforge.plan.lookup import Lookup
from kernelforge.plan.values import Decided, PlannedKey, StoreTrouble
from kernelforge.store import marker
from kernelforge.store.actions import ActionCache
from kernelforge.store.damage import Damage, read_damage
from kernelforge.store.interface import PruneStore
from kernelforge.store.published import is_published

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
) -> Decided:
    """The keys with their decisions; their old ones are not read. ``FormatUnknown`` for a store of a later version."""
    try:
        # One that is down is asked one thing, not about every key: that would cost each of them a deadline.
        marker.check(store)
        damage = _known_damage(store)
        published = lock.digest if lock and _is_published(cache, lock.digest) else None
    except FormatUnknown:
        raise
    except StoreError as error:
        return Decided(tuple(replace(key, decision=StoreTrouble(error)) for key in keys))
    lookup = Lookup(store, cache, lock, recorded, damage)
    packs = lookup.packs(keys) if published else {}
    # Of a lockfile that lacks a key, the packs do not stay either: its objects will be linked again, all of them.
    is_whole = bool(packs) and all(map(lookup.is_answered_by_lock, keys))
    locked = {key.key_digest: lookup.locked_hit(key) for key in keys if is_whole and not lookup.is_suspect(key)}

    def decided(key: PlannedKey) -> PlannedKey:
        decision = locked.get(key.key_digest) or lookup.look_up(key)
        return replace(key, decision=decision, seconds_before=lookup.seconds_before(key))

    if len(locked) == len(keys):
        return Decided(tuple(map(decided, keys)), published, packs, frozenset(damage or ()))
    with ThreadPoolExecutor(_LOOKUP_THREADS) as threads:
        return Decided(tuple(threads.map(decided, keys)), published, packs, frozenset(damage or ()))


def _known_damage(store: PruneStore) -> Mapping[Digest, Damage] | None:
    """The list of damage; None if it cannot be read, and then everything must be looked at."""
    try:
        return read_damage(store)
    except ObjectCorrupt as error:
        logger.warning("every key is looked up, because the list of damage is damaged: %s", error)
        return None


def _is_published(cache: ActionCache, lock: Digest) -> bool:
    try:
        return is_published(cache, lock)
    except ObjectCorrupt as error:
        logger.warning("the lockfile vouches for nothing, because the record of its publication is damaged: %s", error)
        return False
