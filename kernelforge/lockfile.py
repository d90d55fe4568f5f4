"""The lockfile: the resolved release, and the only thing a pod trusts about it.

It names every (kernel, compile key, target) with its object, the pack of each device profile, the profiles themselves
and the fingerprints of each kernel class. Its bytes are a function of what was built and nothing else: no times, no
paths, no seconds, so that a rebuild leaves git clean. Values and format only: ``release`` makes lockfiles, ``loader``
reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelforge import json_values
from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile
from kernelforge.digest import Digest
from kernelforge.errors import LockfileError
from kernelforge.lockfile_text import DeferredEntries, SplitText
from kernelforge.target import Target

SCHEMA = "kernelforge.lock/1"
# A release of 10,000 keys is about 10 MB; more is no lockfile of ours.
SIZE_LIMIT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class LockedKernel:
    """One kernel class as it was when the release was built.

    ``launch_fingerprint`` covers dispatch and launch code; ``source_fingerprint`` the device code, whose ``sources``
    (definition -> digest) let a later miss say which of them changed.
    """

    launch_fingerprint: Digest
    source_fingerprint: Digest
    sources: Mapping[str, str]
    compile_options: str


@dataclass(frozen=True)
class LockedEntry:
    """One compiled key. ``compile_key`` is its JSON form, ``devices`` the profiles whose packs hold it."""

    kernel: str
    compile_key: Mapping[str, Any]
    target: Target
    key_digest: Digest
    symbol: str
    object: Descriptor
    devices: tuple[str, ...]


@dataclass(frozen=True)
class LockedPack:
    """The shared library of one device profile.

    ``recipe`` digests what it was made from (ordered objects, linker, runtime); ``needed`` are the libraries and
    ``undefined`` the symbols that the pod must provide.
    """

    target: Target
    recipe: Digest
    blob: Descriptor
    linker: str
    needed: tuple[str, ...]
    undefined: tuple[str, ...]


@dataclass(frozen=True)
class Lockfile:
    """The whole release. ``parse`` is the inverse of ``to_bytes``, and equal releases have equal bytes.

    The order of entries, devices and names is no part of a release: the bytes have one order, whatever order came in.
    """

    name: str
    abi: str
    contract: int
    toolchains: Mapping[str, Mapping[str, str]]
    devices: Mapping[str, DeviceProfile]
    kernels: Mapping[str, LockedKernel]
    entries: Sequence[LockedEntry]
    packs: Mapping[str, LockedPack]

    @property
    def digest(self) -> Digest:
        """Digest of the bytes: what a pod pins."""
        return Digest.of(self.to_bytes())

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """All that a store has to have: packs, then objects, each once."""
        packs = (pack.blob for pack in self.packs.values())
        return tuple(dict.fromkeys((*packs, *(entry.object for entry in self.entries))))

    def to_bytes(self) -> bytes:
        """Canonical bytes: sorted names, sorted entries, one spelling of every number, a final newline."""
        document = {
            "schema": SCHEMA,
            "name": self.name,
            "abi": self.abi,
            "contract": self.contract,
            "toolchains": {cuda: dict(versions) for cuda, versions in self.toolchains.items()},
            "devices": {name: profile.to_json() for name, profile in self.devices.items()},
            "kernels": {name: _json(kernel) for name, kernel in self.kernels.items()},
            "entries": [_json(entry) for entry in sorted(self.entries, key=_entry_order)],
            "packs": {name: _json(pack) for name, pack in self.packs.items()},
        }
        return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes, *, where: str = "lockfile") -> Lockfile:
        """Read exactly what ``to_bytes`` writes, in any order and spacing; ``LockfileError`` for anything else.

        Unknown members are refused like missing ones: what a reader drops would not be in the digest of what it read.
        """
        try:
            document = json_values.mapping(_parse(data))
            schema = document.pop("schema", None)
            if schema != SCHEMA:
                raise ValueError(f"its schema is {schema!r}, this version reads {SCHEMA}")
            lock = cls(**json_values.members(document, _LOCKFILE))
            _check_consistent(lock)
        except ValueError as error:
            raise _not_ours(str(error), where) from error
        return lock

    @classmethod
    def parse_pinned(cls, data: bytes, *, where: str = "lockfile") -> Lockfile:
        """``parse`` for bytes whose digest was pinned: the entries are read and checked when they are first needed.

        Everything else is read and checked now. Bytes in another layout than that of ``to_bytes`` are parsed whole.
        """
        text = SplitText.of(data)
        lock = cls.parse(data if text is None else text.rest, where=where)
        if text is None or lock.entries:  # entries in two places: the layout misled us
            return lock if text is None else cls.parse(data, where=where)
        return replace(lock, entries=DeferredEntries(text, lambda: tuple(cls.parse(data, where=where).entries)))

    def entries_for(self, device: str) -> tuple[LockedEntry, ...]:
        """The entries that the pack of this device profile holds."""
        return tuple(entry for entry in self.entries if device in entry.devices)

    def kernels_by_symbol(self, device: str) -> dict[str, str]:
        """Symbol -> kernel of the entries that the pack of this device profile holds; reads none of them if it can."""
        if isinstance(self.entries, DeferredEntries):
            found = self.entries.kernels_by_symbol(device)
            if found is not None:
                return found
        return {entry.symbol: entry.kernel for entry in self.entries_for(device)}

    def preimage_of(self, entry: LockedEntry) -> dict[str, Any]:
        """What is known of an entry's key preimage, in its JSON form: put together again from what keys share."""
        kernel = self.kernels[entry.kernel]
        return {
            "kernel": entry.kernel,
            "compile_key": dict(entry.compile_key),
            "target": str(entry.target),
            "source": {"digest": str(kernel.source_fingerprint), "parts": dict(kernel.sources)},
            "compile_options": kernel.compile_options,
            "abi": self.abi,
            "contract": self.contract,
            "toolchain": dict(self.toolchains.get(entry.target.cuda, {})),
        }


def _not_ours(problem: str, where: str) -> LockfileError:
    hint = "take it from the build that wrote it, or build it again; do not edit it by hand"
    return LockfileError(f"not a lockfile of ours: {problem}", hint=hint, where=where)


def _entry_order(entry: LockedEntry) -> tuple[str, str, str]:
    return entry.kernel, str(entry.target), json.dumps(entry.compile_key, sort_keys=True)


def _json(part: LockedKernel | LockedEntry | LockedPack) -> dict[str, Any]:
    return {name: _plain(getattr(part, name)) for name in part.__dataclass_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, Descriptor):
        return value.to_json()
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(value) if isinstance(value, tuple) else str(value)


def _parse(data: bytes) -> Any:
    if len(data) > SIZE_LIMIT_BYTES:
        raise ValueError(f"it has {len(data)} bytes, at most {SIZE_LIMIT_BYTES} are read")
    try:
        return json_values.parse(data)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error


def _digest(value: Any) -> Digest:
    return Digest.parse(json_values.text(value))


def _target(value: Any) -> Target:
    return Target.parse(json_values.text(value))


_TEXTS = json_values.items(json_values.text)
_TEXT_MAP = json_values.values(json_values.text)
_KERNEL = {
    "launch_fingerprint": _digest,
    "source_fingerprint": _digest,
    "sources": _TEXT_MAP,
    "compile_options": json_values.text,
}
_ENTRY = {
    "kernel": json_values.text,
    "compile_key": json_values.mapping,
    "target": _target,
    "key_digest": _digest,
    "symbol": json_values.text,
    "object": Descriptor.from_json,
    "devices": _TEXTS,
}
_PACK = {
    "target": _target,
    "recipe": _digest,
    "blob": Descriptor.from_json,
    "linker": json_values.text,
    "needed": _TEXTS,
    "undefined": _TEXTS,
}
_LOCKFILE = {
    "name": json_values.text,
    "abi": json_values.text,
    "contract": json_values.integer,
    "toolchains": json_values.values(_TEXT_MAP),
    "devices": json_values.values(DeviceProfile.from_json),
    "kernels": json_values.values(lambda value: LockedKernel(**json_values.members(value, _KERNEL))),
    "entries": json_values.items(lambda value: LockedEntry(**json_values.members(value, _ENTRY))),
    "packs": json_values.values(lambda value: LockedPack(**json_values.members(value, _PACK))),
}


def _check_consistent(lock: Lockfile) -> None:
    """What the format cannot say: every name that is used is defined, and nothing is defined twice."""
    contradiction = next(_contradictions(lock), None)
    if contradiction:
        raise ValueError(contradiction)


def _contradictions(lock: Lockfile) -> Iterator[str]:
    for name, profile in lock.devices.items():
        if profile.name != name:
            yield f"the device profile under {name!r} is that of {profile.name!r}"
    for device in lock.packs:
        if device not in lock.devices:
            yield f"there is a pack for {device!r}, which has no profile"
    known = set()
    for entry in lock.entries:
        yield from _entry_contradictions(entry, lock)
        if (entry.symbol, entry.target) in known:
            yield f"{entry.symbol} appears twice for {entry.target}"
        known.add((entry.symbol, entry.target))


def _entry_contradictions(entry: LockedEntry, lock: Lockfile) -> Iterator[str]:
    if entry.kernel not in lock.kernels:
        yield f"{entry.symbol} is of an undescribed kernel {entry.kernel}"
    if entry.target.cuda not in lock.toolchains:
        yield f"{entry.symbol} is for {entry.target}, and no toolchain of {entry.target.cuda} is described"
    if not entry.devices or len(set(entry.devices)) != len(entry.devices):
        yield f"{entry.symbol} is for no device, or for one device twice: {', '.join(entry.devices)}"
    for device in entry.devices:
        pack = lock.packs.get(device)
        if pack is None:
            yield f"{entry.symbol} is for {device!r}, which has no pack"
        elif pack.target != entry.target:
            yield f"{entry.symbol} is for {entry.target}, the pack of {device!r} for {pack.target}"
