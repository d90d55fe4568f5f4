"""Why a key has no object: which part of its preimage differs from what the previous lockfile has. Asks no store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kernelforge.keys.key_digest import differences
from kernelforge.lockfile import LockedEntry, Lockfile
from kernelforge.plan.values import PlannedKey
from kernelforge.target import Target


def why_missing(key: PlannedKey, lock: Lockfile | None, locked: Mapping[tuple[str, Target], LockedEntry]) -> str:
    """The part of the preimage that differs from the previous lockfile's, or that there is nothing to compare with."""
    if lock is None:
        return "never built: no record in the store, and no lockfile to compare with"
    entry = locked.get((key.symbol, key.target))
    if entry is None:
        return _why_new(key, lock)
    if entry.key_digest == key.key_digest:
        return "the lockfile has it, this store does not"
    found = differences(lock.preimage_of(entry), key.preimage.to_json())
    return "; ".join(found) or "the way in which keys are digested changed"


def _why_new(key: PlannedKey, lock: Lockfile) -> str:
    """A key that the lockfile lacks altogether: say how it differs from the nearest of the same kernel."""
    if key.kernel not in lock.kernels:
        return "the kernel is not in the lockfile"
    same_target = [entry for entry in lock.entries if entry.kernel == key.kernel and entry.target == key.target]
    if not same_target:
        return f"the lockfile has no keys of this kernel for {key.target}"
    nearest = min(same_target, key=lambda entry: _distance(entry, key))
    fields = ", ".join(
        f"{name} {nearest.compile_key.get(name)!r} -> {key.compile_key.get(name)!r}"
        for name in _differing_fields(nearest, key)
    )
    return f"new key: {fields} (from the nearest in the lockfile)"


def _distance(entry: LockedEntry, key: PlannedKey) -> tuple[int, int]:
    """How many fields differ, and in how many of them more than the type does."""
    differing = _differing_fields(entry, key)
    return len(differing), sum(entry.compile_key.get(name) != key.compile_key.get(name) for name in differing)


def _differing_fields(entry: LockedEntry, key: PlannedKey) -> list[str]:
    names = sorted(set(entry.compile_key) | set(key.compile_key))
    return [name for name in names if _text(entry.compile_key.get(name)) != _text(key.compile_key.get(name))]


def _text(value: Any) -> str:
    # Not `!=`: 32 and 32.0 are two values.
    return json.dumps(value, sort_keys=True)
