"""The policy 'jit': a key that the lockfile lacks is compiled here, once per node, and written down for the next build.

It answers misses and nothing else. A pack that cannot be fetched is trouble with the store, whatever the policy: a
fleet that meets it by compiling everything at once would hide it and make it worse.
"""

from __future__ import annotations

import copy
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kernelforge.descriptor import MAX_SIZE_BYTES, Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import KernelForgeError, ObjectMissing, PackCorrupt, ToolchainError
from kernelforge.jit_request import JitRequest
from kernelforge.loader.fresh_process import ask_fresh_process
from kernelforge.loader.jit_cache import JitCache, described, identity_of
from kernelforge.loader.miss_log import MissLog
from kernelforge.loader.missing import text_of
from kernelforge.loader.pack import Places
from kernelforge.loader.stats import JIT, MISSES, StepClock
from kernelforge.lockfile import LockedPack
from kernelforge.target import Target

_log = logging.getLogger(__name__)

Kernel = Callable[..., Any]
# Opens a pack's one symbol: out of the cache, or from the bytes given, which it puts there.
OpenPack = Callable[[LockedPack, str, "bytes | None"], Kernel]

# The slowest kernels known take 40 s; one that takes longer than this hangs.
_LIMIT_S = 600.0


def places_of_compiled(places: Places, data: bytes | None) -> Places:
    """Where a pack that was compiled here is looked for: as any other, with ``data`` in the place of the store."""
    if data is None:
        return replace(places, path=None, open_store=None)
    from kernelforge.store.blobs import put_blob
    from kernelforge.store.memory import MemoryStore

    store = MemoryStore()
    put_blob(store, data, compress=False)
    return replace(places, path=None, open_store=lambda: store)


class Jit:
    """Compiles what is missing for one device; one key at a time, from whatever thread it is asked for."""

    def __init__(
        self,
        function: str,
        *,
        target: Target,
        cache: JitCache,
        misses: MissLog,
        open_pack: OpenPack,
        clock: StepClock,
    ) -> None:
        """``function``: ``module:function`` that answers a ``JitRequest``; it is imported in a fresh process only."""
        self._function = function
        self._target = target
        self._cache = cache
        self._misses = misses
        self._open_pack = open_pack
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, Kernel | KernelForgeError] = {}

    def kernel(self, kernel: str, symbol: str, compile_key: Mapping[str, Any]) -> Kernel:
        """The kernel, compiled now unless this node has done so before; blocks until it is there.

        ``compile_key`` is the key's JSON form, ``symbol`` its symbol.

        Raises ``ToolchainError`` when it cannot be compiled, ``SourceError`` when its code cannot be read, and what
        opening a pack raises. Whatever it was is raised again without another try: a kernel that does not compile would
        cost every request its compile.
        """
        with self._lock:
            known = self._known.get(symbol)
            if known is None:
                known = self._known[symbol] = self._first_time(kernel, symbol, compile_key)
        if isinstance(known, KernelForgeError):
            # A copy has no traceback: one error raised again and again would keep the frames of every request alive.
            raise copy.copy(known)
        return known

    def _first_time(self, kernel: str, symbol: str, compile_key: Mapping[str, Any]) -> Kernel | KernelForgeError:
        _log.warning("the lockfile lacks %s with %s: compiled in this pod", kernel, text_of(compile_key))
        self._clock.counters.add(MISSES)
        started = time.monotonic()
        try:
            scratch = tempfile.TemporaryDirectory(prefix="kernelforge-jit-", ignore_cleanup_errors=True)
            with self._clock.step("jit"), scratch as folder:
                request = JitRequest(kernel, compile_key, symbol, self._target, folder, _LIMIT_S)
                found: Kernel | KernelForgeError = self._find(request)
            self._clock.counters.add(JIT)
        except KernelForgeError as error:
            self._clock.counters.add_error(error)
            found = copy.copy(error)
        except OSError as error:  # no folder for the compile, no process
            found = ToolchainError(f"nothing can be compiled here: {error}", hint="give the pod a writable TMPDIR")
            self._clock.counters.add_error(found)
        self._misses.add(kernel, compile_key, seconds=time.monotonic() - started)
        return found

    def _find(self, request: JitRequest) -> Kernel:
        identity = identity_of(request, self._function)
        kernel = self._kept(identity, request.symbol)
        if kernel is not None:
            return kernel
        with self._cache.turn(identity, wait_s=_LIMIT_S):
            # Somebody may have compiled it while we waited.
            kernel = self._kept(identity, request.symbol)
            return self._compile(request, identity) if kernel is None else kernel

    def _kept(self, identity: Digest, symbol: str) -> Kernel | None:
        """The kernel as this node compiled it before, if it did and its pack is still there and whole."""
        pack = self._cache.read(identity, self._target)
        if pack is None:
            return None
        try:
            return self._open_pack(pack, symbol, None)
        except (ObjectMissing, PackCorrupt) as error:
            _log.warning("a kernel that was compiled here before is compiled again: %s", error)
            return None

    def _compile(self, request: JitRequest, identity: Digest) -> Kernel:
        answer = ask_fresh_process(self._function, request)
        with open(answer.pack, "rb") as file:
            data = file.read(MAX_SIZE_BYTES + 1)
        pack = described(Descriptor.raw(data), answer, self._target, identity)
        kernel = self._open_pack(pack, request.symbol, data)
        self._cache.write(pack)
        return kernel
