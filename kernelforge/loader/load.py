"""``kernelforge.load``: from a lockfile to callable kernels, one step after the other.

Every step either proves what the next relies on or raises a typed error; no native code of the release is opened before
the lockfile is trusted, the device fits, the pack's sha256 is right and the process has what the pack needs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelforge.contract import CONTRACT_VERSION, JitKernel
from kernelforge.errors import LockfileError, UsageError
from kernelforge.loader.cache import PackCache
from kernelforge.loader.driver import find_device
from kernelforge.loader.found_device import FoundDevice
from kernelforge.loader.host import host_triple
from kernelforge.loader.kernel_set import KernelSet
from kernelforge.loader.library import check_images, look_up, open_pack
from kernelforge.loader.options import Options
from kernelforge.loader.pack import FoundPack, Places, find_pack
from kernelforge.loader.runtime import check_driver, prepare_runtime
from kernelforge.loader.select import select_profile
from kernelforge.loader.stats import LoadStats, StepClock
from kernelforge.loader.trust import Trust, TrustedBytes, read_trusted
from kernelforge.lockfile import LockedPack, Lockfile

if TYPE_CHECKING:
    from kernelforge.store.interface import ReadStore

_log = logging.getLogger(__name__)

# How an object's entries are called: recorded at build, because a pack of another kind fails only at its first call.
_ABI = "tvm-ffi"


def load(
    lockfile: str | os.PathLike[str] | bytes,
    *,
    trust: Trust,
    store: str | ReadStore | None = None,
    device: int | FoundDevice | None = None,
    profile: str | None = None,
    pack: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    require: Mapping[type[JitKernel[Any]] | str, Iterable[Any]] | None = None,
    policy: str = "strict",
) -> KernelSet:
    """Load the kernels that a lockfile has for a device.

    ``lockfile``: a path, or the bytes themselves. ``trust``: ``PinnedDigest("sha256:...")``, or ``LocalFile()`` for a
    file that the caller vouches for. ``device``: a CUDA ordinal (``CUDA_VISIBLE_DEVICES`` applies), or facts gathered
    before; by default the calling thread's current device, 0 where there is none. ``profile`` insists on one device
    profile. The pack is looked for at ``pack``, and nowhere else if that is given; else in the cache folder
    (``Options.from_environment`` has the order), else in ``store`` (a location or an open store). ``require``: compile
    keys by kernel class or name that must be there. ``policy``: 'strict', a key that the lockfile lacks is an error.

    Guarantees: no compiler, no CUDA toolkit and no listing of a store; nothing is written except the pack into the
    cache after a fetch; where that fails the pack is opened from memory. The current device stays what it was.

    Raises ``UntrustedLockfile``, ``LockfileError``, ``DeviceMismatch``, ``RuntimeUnfit``, ``PackCorrupt``,
    ``UnsafeCache``, ``KernelMissing`` (from ``require``), ``StoreError`` (``ObjectMissing``: the pack is in no place)
    and ``UsageError``.
    """
    if policy != "strict":
        raise UsageError(f"there is no policy {policy!r}", hint="policy='strict'")
    clock = StepClock()
    with clock.step("read_lockfile"):
        trusted = read_trusted(lockfile, trust)
    with clock.step("parse_lockfile"):
        lock = _parse(trusted)
    with clock.step("find_device"):
        found = device if isinstance(device, FoundDevice) else find_device(device)
    with clock.step("select_profile"):
        chosen = select_profile(lock, found, host=host_triple(), only=profile)
    locked = lock.packs[chosen]
    check_driver(found.driver_cuda, locked)
    found_pack = find_pack(locked.blob, _places(pack, cache, store), clock)
    functions = _open(found_pack, locked, [entry.symbol for entry in lock.entries_for(chosen)], clock)
    stats = _stats(found_pack, lock, chosen, clock)
    kernels = KernelSet(lock, lockfile_digest=trusted.digest, profile=chosen, functions=functions, stats=stats)
    if require is not None:
        kernels.require(require)
    _log.info(
        "loaded %d kernels of %d classes for %s in %.1f ms (pack of %d bytes from %s), lockfile %s",
        *(stats.kernels, stats.kernel_classes, chosen, stats.total_s * 1e3, stats.pack_bytes, stats.pack_source),
        trusted.digest,
    )
    return kernels


def _parse(trusted: TrustedBytes) -> Lockfile:
    lock = Lockfile.parse(trusted.data, where=trusted.where)
    for what, found, expected in (
        ("call interface", lock.abi, _ABI),
        ("version of the kernel contract", lock.contract, CONTRACT_VERSION),
    ):
        if found != expected:
            raise LockfileError(
                f"its {what} is {found!r}, this loader's is {expected!r}",
                hint="install the kernelforge that built the lockfile, or build again with this one",
                where=trusted.where,
            )
    return lock


def _places(
    pack: str | os.PathLike[str] | None, cache: str | os.PathLike[str] | None, store: str | ReadStore | None
) -> Places:
    options = Options.from_environment(os.environ, cache=cache)
    return Places(
        path=None if pack is None else Path(pack),
        cache=None if options.cache_folder is None else PackCache(options.cache_folder),
        cache_setting=options.cache_setting,
        open_store=None if store is None else lambda: _opened(store),
    )


def _opened(store: str | ReadStore) -> ReadStore:
    if not isinstance(store, str):
        return store
    from kernelforge.store.locate import open_store

    return open_store(store)


def _open(
    pack: FoundPack, locked: LockedPack, symbols: list[str], clock: StepClock
) -> Mapping[str, Callable[..., Any]]:
    with clock.step("check_images"):
        check_images(pack.data, locked.target)
    with clock.step("prepare_runtime"):
        prepare_runtime(locked)
    with clock.step("dlopen"):
        module = open_pack(pack, locked.blob.content_digest)
    with clock.step("symbols"):
        return look_up(module, symbols)


def _stats(pack: FoundPack, lock: Lockfile, profile: str, clock: StepClock) -> LoadStats:
    entries = lock.entries_for(profile)
    return LoadStats(
        seconds=dict(clock.seconds),
        pack_source=pack.source,
        pack_bytes=len(pack.data),
        is_in_memory=pack.file is None,
        had_damaged_copy=pack.had_damaged_copy,
        kernel_classes=len({entry.kernel for entry in entries}),
        kernels=len(entries),
    )
