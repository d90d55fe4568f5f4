"""From requests to a plan: enumerates keys for every device profile, adds those that pods reported, has them decided.

Knows kernels and their sources; what is in a lockfile or store is ``decide``'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernelforge.contract import symbol_of
from kernelforge.device import DeviceProfile
from kernelforge.encoding import fields_json
from kernelforge.fingerprint import device_fingerprint, launch_fingerprint
from kernelforge.fingerprint.modules import SourceTree
from kernelforge.keys.enumerate import enumerate_keys, import_kernel
from kernelforge.keys.key_digest import KeyPreimage
from kernelforge.keys.reported import ReportedKey, rebuild_reported
from kernelforge.keys.toolchain import Toolchain, check_requires_dsl, installed_toolchain
from kernelforge.lockfile import Lockfile
from kernelforge.misses import MissedKey
from kernelforge.plan.decide import decide
from kernelforge.plan.values import KernelSources, Miss, Plan, PlannedKey, StoreTrouble
from kernelforge.reporting import Expansion
from kernelforge.request import KernelRequest
from kernelforge.store.actions import ActionCache
from kernelforge.store.interface import PruneStore
from kernelforge.target import Target


def make_plan(
    name: str,
    requests: Sequence[KernelRequest],
    targets: Sequence[tuple[DeviceProfile, Target]],
    *,
    store: PruneStore,
    domain: str,
    lock: Lockfile | None,
    recorded: Mapping[str, Mapping[str, Any]],
    missed: Sequence[MissedKey] = (),
) -> Plan:
    """Enumerate all keys and decide on each.

    ``lock`` is the previous lockfile of this deployment, if there is one, and ``recorded`` its build facts by key
    digest; ``missed`` are keys to be added because pods had to compile them. Raises ``InputError`` for kernels,
    arguments or reports that cannot be used, ``ToolchainError`` when the versions of the compiler cannot be read,
    ``FormatUnknown`` for a store of a later version; troubles of the store are decisions.
    """
    tree = SourceTree()
    reported = rebuild_reported(missed, {(profile.name, target) for profile, target in targets})
    names = dict.fromkeys([request.kernel for request in requests] + [key.kernel for key in reported])
    kernels = {name: _sources(name, tree) for name in names}
    toolchains = {target.cuda: installed_toolchain(target.cuda) for _, target in targets}
    for kernel in kernels:
        for toolchain in toolchains.values():
            check_requires_dsl(kernel, import_kernel(kernel).requires_dsl, toolchain)
    keys, expansions = _enumerate(requests, targets, kernels, toolchains)
    keys = _add_reported(keys, reported, kernels, toolchains)
    decided = decide(keys, store=store, cache=ActionCache(store, domain), lock=lock, recorded=recorded)
    with_reports = map(_with_report, decided.keys)
    return Plan(
        name=name,
        keys=tuple(sorted(with_reports, key=lambda key: (key.kernel, str(key.target), key.symbol))),
        expansions=tuple(expansions),
        kernels=kernels,
        toolchains=toolchains,
        targets={profile.name: (profile, target) for profile, target in targets},
        requests=tuple(requests),
        published=decided.published,
        packs=decided.packs,
        damaged=decided.damaged,
    )


def _sources(kernel: str, tree: SourceTree) -> KernelSources:
    kernel_class = import_kernel(kernel)  # first: it says what is wrong with a name
    return KernelSources(
        device=device_fingerprint(kernel, tree),
        launch=launch_fingerprint(kernel, tree),
        compile_options=kernel_class.compile_options,
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


def _add_reported(
    keys: Sequence[PlannedKey],
    reported: Sequence[ReportedKey],
    kernels: Mapping[str, KernelSources],
    toolchains: Mapping[str, Toolchain],
) -> list[PlannedKey]:
    """The keys and those that pods reported; one that requests lead to for its device by now is nothing new."""
    found = {(key.symbol, key.target): key for key in keys}
    for one in reported:
        symbol = symbol_of(one.kernel, one.key)
        known = found.get((symbol, one.target))
        if known is None:
            sources, toolchain = kernels[one.kernel], toolchains[one.target.cuda]
            new = _planned(one.kernel, one.key, symbol, one.target, one.device, sources, toolchain)
            found[symbol, one.target] = replace(new, reported=one.count)
        elif one.device not in known.devices:
            devices = (*known.devices, one.device)
            found[symbol, one.target] = replace(known, devices=devices, reported=known.reported + one.count)
    return list(found.values())


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


def _with_report(key: PlannedKey) -> PlannedKey:
    """Say of a key that pods reported that it is here for that reason."""
    if not key.reported or isinstance(key.decision, StoreTrouble):
        return key
    times = f"{key.reported} time{'s' * (key.reported != 1)}"
    reason = f"reported by pods ({times}); {key.decision.reason}"
    return replace(key, decision=replace(key.decision, reason=reason))
