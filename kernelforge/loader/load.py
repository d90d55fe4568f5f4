"""``kernelforge.load``: from a lockfile to callable kernels, one step after the other.

Every step either proves what the next relies on or raises a typed error; no native code of the release is opened before
the lockfile is trusted, the device fits, the pack's sha256 is right and the process has what the pack needs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelforge.contract import JitKernel
from kernelforge.loader.budget import DEFAULT_BUDGET_S, Budget
from kernelforge.loader.cache import PackCache
from kernelforge.loader.driver import find_device
from kernelforge.loader.found_device import FoundDevice
from kernelforge.loader.host import host_triple
from kernelforge.loader.kernel_set import KernelSet
from kernelforge.loader.library import check_image, look_up, open_pack
from kernelforge.loader.load_store import LoadStore
from kernelforge.loader.mounts import Mount
from kernelforge.loader.options import Options
from kernelforge.loader.pack import FoundPack, Places, find_pack
from kernelforge.loader.policy import Policy
from kernelforge.loader.preload import devices_to_preload, preload_pack
from kernelforge.loader.runtime import check_driver, prepare_runtime
from kernelforge.loader.select import select_profile
from kernelforge.loader.serials import SerialMemory
from kernelforge.loader.source import LockSource
from kernelforge.loader.stats import LoadStats, StepClock
from kernelforge.loader.trust import Trust, parse_trusted, read_trusted
from kernelforge.lockfile import LockedPack, Lockfile

if TYPE_CHECKING:
    from kernelforge.store.interface import ReadStore

_log = logging.getLogger(__name__)

# How an object's entries are called: recorded at build, because a pack of another kind fails only at its first call.


def load(
    lockfile: LockSource,
    *,
    trust: Trust,
    store: str | ReadStore | None = None,
    device: int | FoundDevice | None = None,
    profile: str | None = None,
    pack: str | os.PathLike[str] | None = None,
    mounts: Sequence[str | os.PathLike[str]] | None = None,
    cache: str | os.PathLike[str] | None = None,
    require: Mapping[type[JitKernel[Any]] | str, Iterable[Any]] | None = None,
    policy: str = "strict",
    compile_missing: str | None = None,
    misses: str | os.PathLike[str] | None = None,
    budget_s: float = DEFAULT_BUDGET_S,
    preload: bool | Sequence[int] = False,
    facts: str | os.PathLike[str] | None = None,
) -> KernelSet:
    """Load the kernels that a lockfile has for a device.

    ``lockfile``: a path, the bytes themselves, ``FromStore("sha256:...")`` or ``Channel("qwen3-8b", "prod")`` for one
    in ``store``, or ``Bundle("qwen3-8b.bundle")``, which brings all that ``store`` would. ``trust``:
    ``PinnedDigest("sha256:...")``; ``TrustedKeys(["release.key.pub"])`` for what somebody trusted has signed; or
    ``LocalFile()`` for a file that the caller vouches for. ``device``: a CUDA ordinal (``CUDA_VISIBLE_DEVICES``
    applies), or facts gathered before; by default the calling thread's current device, 0 where there is none.
    ``profile`` insists on one device profile. The pack is looked for at ``pack``, and nowhere else if that is given;
    else in the read-only folders ``mounts``, else in the cache folder (``Options.from_environment`` says which these
    are by default), else in ``store`` (a location or an open store). ``require``: compile keys by kernel class or name
    that must be there.

    ``policy`` is about keys that the lockfile lacks. 'strict': an error. 'jit': ``compile_missing``, a function named
    ``module:function`` (``kernelforge.builder.single:compile_missing``), compiles them in a fresh process, once per
    node, those of ``require`` before ``load`` returns. Each is written into the folder ``misses`` (by default
    ``misses`` in the cache folder), for ``kernelforge build --misses``. ``budget_s``: what all waiting for the store
    may take, tries included; trouble with a store is an error under both policies, never a miss.

    ``preload``: True brings the device code of all kernels onto the device, a list of ordinals onto all of these, so
    that first calls there load nothing; each keeps its primary context, and must be one that the profile fits.
    ``facts``: the build facts (``name.facts.json``), from which ``stats`` tells the seconds saved.

    Guarantees: no compiler, no CUDA toolkit and no listing of a store; nothing is written except, into the cache, the
    pack after a fetch and the serial of a channel; where that fails the pack is opened from memory. The current device
    stays what it was.

    Raises ``UntrustedLockfile`` (``LockfileExpired``, ``LockfileRolledBack``), ``LockfileError``, ``DeviceMismatch``,
    ``RuntimeUnfit``, ``PackCorrupt``, ``UnsafeCache``, ``KernelMissing`` (from ``require``), ``StoreError``
    (``ObjectMissing``: the pack is in no place) and ``UsageError``.
    """
    on_miss, budget = Policy.of(policy, compile_missing, misses), Budget(budget_s)
    clock = StepClock()
    options = Options.from_environment(os.environ, cache=cache, mounts=mounts)
    packs = None if options.cache_folder is None else PackCache(options.cache_folder)
    load_store = LoadStore(store, budget, clock.counters.add_error)
    with clock.step("read_lockfile"):
        trusted = read_trusted(lockfile, trust, store=load_store.opened, serials=SerialMemory(packs))
    with clock.step("parse_lockfile"):
        lock = parse_trusted(trusted)
    with clock.step("find_device"):
        found = device if isinstance(device, FoundDevice) else find_device(device)
    with clock.step("select_profile"):
        chosen = select_profile(lock, found, host=host_triple(), only=profile)
        preloaded = devices_to_preload(preload, found, lock, chosen)
    locked = lock.packs[chosen]
    with clock.step("list_symbols"):
        names = lock.kernels_by_symbol(chosen)
    with clock.step("check_driver"):
        check_driver(found.driver_cuda, locked)
    places = Places(
        path=None if pack is None else Path(pack),
        mounts=tuple(map(Mount, options.mounts)),
        cache=packs,
        cache_setting=options.cache_setting,
        open_store=load_store.opener(trusted.bundle),
        wait_s=budget.total_s / 2,
    )
    found_pack = find_pack(locked.blob, places, clock)
    functions = _open(lock, found_pack, locked, names, preloaded, clock)
    stats = _stats(found_pack, lock, chosen, names, clock, facts)
    kernels = KernelSet(
        lock,
        lockfile_digest=trusted.digest,
        profile=chosen,
        functions=functions,
        stats=stats,
        clock=clock,
        jit=on_miss.jit(
            lockfile=trusted.digest,
            device=chosen,
            target=locked.target,
            places=places,
            open_found=lambda found, pack, symbols: _open(lock, found, pack, symbols, preloaded, StepClock()),
            clock=clock,
        ),
    )
    with clock.step("require"):
        if require is not None:
            kernels.require(require)
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s for %s, lockfile %s", kernels.stats(), chosen, trusted.digest)
    return kernels


def _open(
    lock: Lockfile,
    pack: FoundPack,
    locked: LockedPack,
    symbols: Iterable[str],
    preloaded: Sequence[int],
    clock: StepClock,
) -> Mapping[str, Callable[..., Any]]:
    with clock.step("check_image"):
        check_image(pack.data, locked.target)
    with clock.step("prepare_runtime"):
        prepare_runtime(locked, lock.toolchains.get(locked.target.cuda, {}))
    with clock.step("dlopen"):
        module = open_pack(pack, locked.blob.content_digest)
    with clock.step("symbols"):
        functions = look_up(module, symbols, pack.data)
    if preloaded:
        with clock.step("preload"):
            preload_pack(module, preloaded)
    return functions


def _stats(
    pack: FoundPack,
    lock: Lockfile,
    profile: str,
    names: Mapping[str, str],
    clock: StepClock,
    facts: str | os.PathLike[str] | None,
) -> LoadStats:
    saved_s = None
    if facts is not None:
        with clock.step("read_facts"):
            from kernelforge.loader.saved import seconds_saved

            saved_s = seconds_saved(Path(facts), lock.entries_for(profile), clock.counters)
    return LoadStats(
        seconds=dict(clock.seconds),
        pack_source=pack.source,
        pack_bytes=len(pack.data),
        is_in_memory=pack.file is None,
        had_damaged_copy=pack.had_damaged_copy,
        kernel_classes=len(set(names.values())),
        kernels=len(names),
        saved_s=saved_s,
    )
