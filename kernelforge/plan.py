"""Decides what must be compiled: every key of a deployment meets the lockfile and the action cache, and gets a reason.

Data in, data out: no compiler, no process, no write. A deployment in which nothing changed is confirmed with one
request per pack, whatever the number of keys; per-key requests happen only when the lockfile cannot answer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from kernelforge.contract import symbol_of
from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile
from kernelforge.digest import Digest
from kernelforge.encoding import fields_json
from kernelforge.errors import FormatUnknown, ObjectCorrupt, ObjectMissing, StoreError
from kernelforge.fingerprint import Fingerprint, device_fingerprint, launch_fingerprint
from kernelforge.fingerprint.modules import SourceTree
from kernelforge.keys.enumerate import enumerate_keys, import_kernel
from kernelforge.keys.key_digest import KeyPreimage, differences
from kernelforge.keys.toolchain import Toolchain, check_requires_dsl, installed_toolchain
from kernelforge.lockfile import LockedEntry, Lockfile
from kernelforge.reporting import Expansion
from kernelforge.request import KernelRequest
from kernelforge.store import marker
from kernelforge.store.actions import ActionCache, BuildRecord
from kernelforge.store.blobs import check_blob
from kernelforge.store.interface import PruneStore
from kernelforge.target import Target

logger = logging.getLogger(__name__)

# One request of 30 ms each: 300 take 0.57 s with 32 threads.
_LOOKUP_THREADS = 32


@dataclass(frozen=True)
class Hit:
    """The object exists. ``seconds`` is the CPU time that its compile took when it was built, if that is on record."""

    object: Descriptor
    reason: str
    facts: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True)
class Miss:
    """The key must be compiled, because of ``reason``."""

    reason: str


@dataclass(frozen=True)
class StoreTrouble:
    """Nobody knows whether the object exists: the store failed. Never counted as a miss."""

    error: StoreError

    @property
    def reason(self) -> str:
        """The same words for all keys that meet the same trouble, so that reports show it once."""
        return f"{type(self.error).__name__}: {self.error.problem} (hint: {self.error.hint})"


Decision = Hit | Miss | StoreTrouble


@dataclass(frozen=True)
class PlannedKey:
    """One (kernel, compile key, target) and what is to be done about it; ``devices`` are the profiles that use it."""

    kernel: str
    compile_key: Mapping[str, Any]
    symbol: str
    target: Target
    devices: tuple[str, ...]
    preimage: KeyPreimage
    key_digest: Digest
    decision: Decision


@dataclass(frozen=True)
class KernelSources:
    """What a kernel class is made of: device code (in the key) and launch code (in the lockfile)."""

    device: Fingerprint
    launch: Fingerprint
    compile_options: str


@dataclass(frozen=True)
class Plan:
    """A decision for every key of a deployment, and what a lockfile needs beside them."""

    name: str
    keys: tuple[PlannedKey, ...]
    expansions: tuple[Expansion, ...]
    kernels: Mapping[str, KernelSources]
    toolchains: Mapping[str, Toolchain]
    targets: Mapping[str, tuple[DeviceProfile, Target]]
    requests: tuple[KernelRequest, ...]

    def decided(self, kind: type[Decision]) -> tuple[PlannedKey, ...]:
        """The keys whose decision is of this kind."""
        return tuple(key for key in self.keys if isinstance(key.decision, kind))


def make_plan(
    name: str,
    requests: Sequence[KernelRequest],
    targets: Sequence[tuple[DeviceProfile, Target]],
    *,
    store: PruneStore,
    domain: str,
    lock: Lockfile | None,
    recorded: Mapping[str, Mapping[str, Any]],
) -> Plan:
    """Enumerate all keys and decide on each.

    ``lock`` is the previous lockfile of this deployment, if there is one, and ``recorded`` its build facts by key
    digest. Raises ``InputError`` for kernels or arguments that cannot be used, ``ToolchainError`` when the versions of
    the compiler cannot be read, ``FormatUnknown`` for a store of a later version; troubles of the store are decisions.
    """
    tree = SourceTree()
    kernels = {request.kernel: _sources(request.kernel, tree) for request in requests}
    toolchains = {target.cuda: installed_toolchain(target.cuda) for _, target in targets}
    for request in requests:
        for toolchain in toolchains.values():
            check_requires_dsl(request.kernel, import_kernel(request.kernel).requires_dsl, toolchain)
    keys, expansions = _enumerate(requests, targets, kernels, toolchains)
    decided = _decide(keys, store=store, cache=ActionCache(store, domain), lock=lock, recorded=recorded)
    return Plan(
        name=name,
        keys=tuple(sorted(decided, key=lambda key: (key.kernel, str(key.target), key.symbol))),
        expansions=tuple(expansions),
        kernels=kernels,
        toolchains=toolchains,
        targets={profile.name: (profile, target) for profile, target in targets},
        requests=tuple(requests),
    )


def _sources(kernel: str, tree: SourceTree) -> KernelSources:
    return KernelSources(
        device=device_fingerprint(kernel, tree),
        launch=launch_fingerprint(kernel, tree),
        compile_options=import_kernel(kernel).compile_options,
    )


def _enumerate(
    requests: Sequence[KernelRequest],
    targets: Sequence[tuple[DeviceProfile, Target]],
    kernels: Mapping[str, KernelSources],
    toolchains: Mapping[str, Toolchain],
) -> tuple[list[PlannedKey], list[Expansion]]:
    """All keys, each once per target: profiles with equal facts share them."""
    found: dict[tuple[str, Target], PlannedKey] = {}
    expansions = []
    for profile, target in targets:
        for request in requests:
            enumerated = enumerate_keys(request, profile)
            expansions.append(Expansion(request.kernel, profile.name, enumerated.points, len(enumerated.keys)))
            for key in enumerated.keys:
                symbol = symbol_of(request.kernel, key)
                known = found.get((symbol, target))
                if known is None:
                    sources = kernels[request.kernel]
                    found[symbol, target] = _planned(
                        request.kernel, key, symbol, target, profile.name, sources, toolchains[target.cuda]
                    )
                elif profile.name not in known.devices:
                    found[symbol, target] = replace(known, devices=(*known.devices, profile.name))
    return list(found.values()), expansions


def _planned(
    kernel: str, key: Any, symbol: str, target: Target, device: str, sources: KernelSources, toolchain: Toolchain
) -> PlannedKey:
    preimage = KeyPreimage.of(
        kernel=kernel,
        compile_key=key,
        target=target,
        source=sources.device,
        compile_options=sources.compile_options,
        toolchain=toolchain,
    )
    return PlannedKey(
        kernel=kernel,
        compile_key=fields_json(key, where=kernel),
        symbol=symbol,
        target=target,
        devices=(device,),
        preimage=preimage,
        key_digest=preimage.digest(),
        decision=Miss("not decided yet"),
    )


def _decide(
    keys: Sequence[PlannedKey],
    *,
    store: PruneStore,
    cache: ActionCache,
    lock: Lockfile | None,
    recorded: Mapping[str, Mapping[str, Any]],
) -> Iterable[PlannedKey]:
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
    return Hit(entry.object, "in the lockfile, and the store has its pack", facts, float(facts.get("seconds", 0.0)))


def _look_up(
    key: PlannedKey,
    cache: ActionCache,
    store: PruneStore,
    lock: Lockfile | None,
    locked: Mapping[tuple[str, Target], LockedEntry],
) -> Decision:
    try:
        record = cache.get(key.key_digest)
        check_blob(store, record.outputs["object"])
    except ObjectMissing:
        return Miss(_why(key, lock, locked))
    except ObjectCorrupt as error:
        return Miss(f"the store's copy is damaged: {error.problem}")
    except StoreError as error:
        return StoreTrouble(error)
    return _recorded_hit(record)


def _recorded_hit(record: BuildRecord) -> Hit:
    return Hit(record.outputs["object"], "in the action cache", record.facts, record.seconds)


def _why(key: PlannedKey, lock: Lockfile | None, locked: Mapping[tuple[str, Target], LockedEntry]) -> str:
    """The part of the preimage that differs from the previous lockfile's, or that there is nothing to compare with."""
    if lock is None:
        return "never built: no record in the store, and no lockfile to compare with"
    entry = locked.get((key.symbol, key.target))
    if entry is None:
        return _why_new(key, lock)
    if entry.key_digest == key.key_digest:
        return "the lockfile has it, this store does not"
    return "; ".join(differences(lock.preimage_of(entry), key.preimage.to_json()))


def _why_new(key: PlannedKey, lock: Lockfile) -> str:
    """A key that the lockfile lacks altogether: say how it differs from the nearest of the same kernel."""
    if key.kernel not in lock.kernels:
        return "the kernel is not in the lockfile"
    same_target = [entry for entry in lock.entries if entry.kernel == key.kernel and entry.target == key.target]
    if not same_target:
        return f"the lockfile has no keys of this kernel for {key.target}"
    nearest = min(same_target, key=lambda entry: len(_differing_fields(entry, key)))
    fields = ", ".join(
        f"{name} {nearest.compile_key.get(name)!r} -> {key.compile_key.get(name)!r}"
        for name in _differing_fields(nearest, key)
    )
    return f"new key: {fields} (from the nearest in the lockfile)"


def _differing_fields(entry: LockedEntry, key: PlannedKey) -> list[str]:
    names = sorted(set(entry.compile_key) | set(key.compile_key))
    return [name for name in names if entry.compile_key.get(name) != key.compile_key.get(name)]
