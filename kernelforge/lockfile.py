"""The lockfile: the resolved release, and the only thing a pod trusts about it.

It names every (kernel, compile key, target) with its object, the pack of each device profile, the profiles themselves
and the fingerprints of each kernel class. Its bytes are a function of what was built and nothing else: no times, no
paths, no seconds, so that a rebuild leaves git clean. Values and format only: ``release`` makes lockfiles, ``loader``
reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile
from kernelforge.digest import Digest
from kernelforge.errors import InputError, LockfileError
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
    """The whole release. ``Lockfile.parse(lock.to_bytes()) == lock``, and equal releases have equal bytes."""

    name: str
    abi: str
    contract: int
    toolchains: Mapping[str, Mapping[str, str]]
    devices: Mapping[str, DeviceProfile]
    kernels: Mapping[str, LockedKernel]
    entries: tuple[LockedEntry, ...]
    packs: Mapping[str, LockedPack]

    @property
    def digest(self) -> Digest:
        """Digest of the bytes: what a pod pins."""
        return Digest.of(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Canonical bytes: sorted names, sorted entries, one spelling of every number, a final newline."""
        document = {
            "schema": SCHEMA,
            "name": self.name,
            "abi": self.abi,
            "contract": self.contract,
            "toolchains": {cuda: dict(versions) for cuda, versions in self.toolchains.items()},
            "devices": {name: profile.to_json() for name, profile in self.devices.items()},
            "kernels": {name: _kernel_json(kernel) for name, kernel in self.kernels.items()},
            "entries": [_entry_json(entry) for entry in sorted(self.entries, key=_entry_order)],
            "packs": {name: _pack_json(pack) for name, pack in self.packs.items()},
        }
        return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes, *, where: str = "lockfile") -> Lockfile:
        """Read a lockfile; ``LockfileError`` for other schemas, missing parts and parts that contradict each other."""
        document = _document(data, where)
        try:
            lock = _read(document)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LockfileError(f"not a well-formed lockfile: {error!r}", hint="build it again", where=where) from error
        except InputError as error:
            raise LockfileError(error.problem, hint=error.hint, where=where) from error
        _check_consistent(lock, where)
        return lock

    def entries_for(self, device: str) -> tuple[LockedEntry, ...]:
        """The entries that the pack of this device profile holds."""
        return tuple(entry for entry in self.entries if device in entry.devices)

    def preimage_of(self, entry: LockedEntry) -> dict[str, Any]:
        """What is known of an entry's key preimage, in its JSON form: what keys share is kept once, here it is joined."""
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


def _entry_order(entry: LockedEntry) -> tuple[str, str, str]:
    return entry.kernel, str(entry.target), json.dumps(entry.compile_key, sort_keys=True)


def _kernel_json(kernel: LockedKernel) -> dict[str, Any]:
    return {
        "launch_fingerprint": str(kernel.launch_fingerprint),
        "source_fingerprint": str(kernel.source_fingerprint),
        "sources": dict(kernel.sources),
        "compile_options": kernel.compile_options,
    }


def _entry_json(entry: LockedEntry) -> dict[str, Any]:
    return {
        "kernel": entry.kernel,
        "compile_key": dict(entry.compile_key),
        "target": str(entry.target),
        "key_digest": str(entry.key_digest),
        "symbol": entry.symbol,
        "object": entry.object.to_json(),
        "devices": sorted(entry.devices),
    }


def _pack_json(pack: LockedPack) -> dict[str, Any]:
    return {
        "target": str(pack.target),
        "recipe": str(pack.recipe),
        "blob": pack.blob.to_json(),
        "linker": pack.linker,
        "needed": sorted(pack.needed),
        "undefined": sorted(pack.undefined),
    }


def _document(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > SIZE_LIMIT_BYTES:
        raise LockfileError(f"{len(data)} bytes are no lockfile", hint=f"at most {SIZE_LIMIT_BYTES}", where=where)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise LockfileError(f"not JSON: {error}", hint="is this the right file?", where=where) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise LockfileError(f"schema is {schema!r}", hint=f"this version reads {SCHEMA}", where=where)
    assert isinstance(document, dict)
    return document


def _read(document: dict[str, Any]) -> Lockfile:
    return Lockfile(
        name=_str(document["name"]),
        abi=_str(document["abi"]),
        contract=int(document["contract"]),
        toolchains={cuda: _str_map(versions) for cuda, versions in document["toolchains"].items()},
        devices={name: DeviceProfile.from_json(profile) for name, profile in document["devices"].items()},
        kernels={name: _read_kernel(kernel) for name, kernel in document["kernels"].items()},
        entries=tuple(_read_entry(entry) for entry in document["entries"]),
        packs={name: _read_pack(pack) for name, pack in document["packs"].items()},
    )


def _read_kernel(data: dict[str, Any]) -> LockedKernel:
    return LockedKernel(
        launch_fingerprint=Digest.parse(data["launch_fingerprint"]),
        source_fingerprint=Digest.parse(data["source_fingerprint"]),
        sources=_str_map(data["sources"]),
        compile_options=_str(data["compile_options"]),
    )


def _read_entry(data: dict[str, Any]) -> LockedEntry:
    return LockedEntry(
        kernel=_str(data["kernel"]),
        compile_key=dict(data["compile_key"]),
        target=Target.parse(data["target"]),
        key_digest=Digest.parse(data["key_digest"]),
        symbol=_str(data["symbol"]),
        object=Descriptor.from_json(data["object"]),
        devices=tuple(map(_str, data["devices"])),
    )


def _read_pack(data: dict[str, Any]) -> LockedPack:
    return LockedPack(
        target=Target.parse(data["target"]),
        recipe=Digest.parse(data["recipe"]),
        blob=Descriptor.from_json(data["blob"]),
        linker=_str(data["linker"]),
        needed=tuple(map(_str, data["needed"])),
        undefined=tuple(map(_str, data["undefined"])),
    )


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _str_map(value: Any) -> dict[str, str]:
    return {_str(name): _str(item) for name, item in value.items()}


def _check_consistent(lock: Lockfile, where: str) -> None:
    """What the format cannot say: every name that is used is defined, and nothing is defined twice."""
    symbols_by_pack: set[tuple[str, str]] = set()
    for entry in lock.entries:
        if entry.kernel not in lock.kernels:
            raise LockfileError(
                f"{entry.symbol} is of an undescribed kernel {entry.kernel}", hint="build again", where=where
            )
        for device in entry.devices:
            pack = lock.packs.get(device)
            if pack is None or device not in lock.devices:
                raise LockfileError(
                    f"{entry.symbol} is for {device!r}, which has no pack", hint="build again", where=where
                )
            if pack.target != entry.target:
                raise LockfileError(
                    f"{entry.symbol} is for {entry.target}, the pack of {device!r} for {pack.target}",
                    hint="build again",
                    where=where,
                )
            if (device, entry.symbol) in symbols_by_pack:
                raise LockfileError(f"{entry.symbol} appears twice for {device!r}", hint="build again", where=where)
            symbols_by_pack.add((device, entry.symbol))
