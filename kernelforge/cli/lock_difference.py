"""What differs between two lockfiles, key by key, and which part of a key's preimage made it so.

Two builds of the same thing must show no difference at all, wherever and whenever they ran.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernelforge.descriptor import Descriptor
from kernelforge.keys.key_digest import differences
from kernelforge.lockfile import LockedEntry, Lockfile

_UNEXPLAINED = "nothing that the lockfiles record: the digests were made by different versions of kernelforge"


@dataclass(frozen=True)
class KeyChange:
    """One key. ``change`` is added, removed, rebuilt (other key digest), replaced (same key digest, but the object is
    another one or stored otherwise) or moved (other devices).
    """

    change: str
    kernel: str
    compile_key: Mapping[str, Any]
    target: str
    symbol: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class LockDifference:
    """``keys``: changes of single keys; ``release``: what else differs, in words."""

    keys: tuple[KeyChange, ...]
    release: tuple[str, ...]


def compare_lockfiles(old: Lockfile, new: Lockfile) -> LockDifference:
    """Everything that differs; both parts are empty exactly if the lockfiles are equal."""
    before = {(entry.kernel, entry.symbol, str(entry.target)): entry for entry in old.entries}
    after = {(entry.kernel, entry.symbol, str(entry.target)): entry for entry in new.entries}
    changes: list[KeyChange] = []
    for name in sorted({*before, *after}):
        if name not in after:
            changes.append(_change("removed", before[name], ()))
        elif name not in before:
            changes.append(_change("added", after[name], _why_added(after[name], old)))
        else:
            changes += _changed(before[name], after[name], old, new)
    return LockDifference(tuple(changes), tuple(_release_differences(old, new)))


def _changed(before: LockedEntry, after: LockedEntry, old: Lockfile, new: Lockfile) -> Iterator[KeyChange]:
    if before.key_digest != after.key_digest:
        reasons = tuple(differences(old.preimage_of(before), new.preimage_of(after)))
        yield _change("rebuilt", after, reasons or (_UNEXPLAINED,))
    elif before.object.content_digest != after.object.content_digest:
        objects = f"object {before.object.content_digest} -> {after.object.content_digest}"
        yield _change("replaced", after, ("the same key has another object", objects))
    elif before.object != after.object:
        yield _change("replaced", after, ("the same object is stored in another way (compression)",))
    if set(before.devices) != set(after.devices):
        devices = f"devices {', '.join(sorted(before.devices))} -> {', '.join(sorted(after.devices))}"
        yield _change("moved", after, (devices,))


def _why_added(entry: LockedEntry, old: Lockfile) -> tuple[str, ...]:
    """How a new key differs from the nearest old one of its kernel and target; empty where there is none."""
    related = [other for other in old.entries if (other.kernel, other.target) == (entry.kernel, entry.target)]
    if not related:
        return ()
    reasons = [differences({"compile_key": other.compile_key}, {"compile_key": entry.compile_key}) for other in related]
    fewest: list[str] = min(reasons, key=len)
    return tuple(fewest)


def _change(change: str, entry: LockedEntry, reasons: tuple[str, ...]) -> KeyChange:
    return KeyChange(change, entry.kernel, entry.compile_key, str(entry.target), entry.symbol, reasons)


def _release_differences(old: Lockfile, new: Lockfile) -> Iterator[str]:
    for label in ("name", "abi", "contract"):
        if getattr(old, label) != getattr(new, label):
            yield f"{label} {getattr(old, label)} -> {getattr(new, label)}"
    for cuda in sorted({*old.toolchains, *new.toolchains}):
        yield from _members(f"toolchain of {cuda}", old.toolchains.get(cuda, {}), new.toolchains.get(cuda, {}))
    for name in sorted({*old.kernels, *new.kernels}):
        yield from _members(f"kernel {name}", _fields(old.kernels.get(name)), _fields(new.kernels.get(name)))
    for name in sorted({*old.devices, *new.devices}):
        yield from _members(f"device {name}", _profile(old, name), _profile(new, name))
    for name in sorted({*old.packs, *new.packs}):
        yield from _members(f"pack of {name}", _fields(old.packs.get(name)), _fields(new.packs.get(name)))


def _members(label: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if not old or not new:
        if old or new:
            yield f"{label} {'added' if new else 'removed'}"
        return
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{label}: {name} {_shown(old.get(name))} -> {_shown(new.get(name))}"


def _profile(lock: Lockfile, device: str) -> dict[str, Any]:
    if device not in lock.devices:
        return {}
    profile = lock.devices[device]
    return {"arch": profile.arch, **{name: f"{fact.value} ({fact.source})" for name, fact in profile.facts.items()}}


def _fields(value: Any) -> dict[str, Any]:
    """A locked kernel or pack by field; nested mappings are left to the keys that they explain."""
    if value is None:
        return {}
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {name: each for name, each in fields.items() if not isinstance(each, Mapping)}


def _shown(value: Any) -> str:
    if value is None:
        return "(absent)"
    if isinstance(value, Descriptor):
        return f"{value.content_digest} (stored as {value.stored_digest.short})"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
