"""What ``load`` returns: the kernels of one release for one device, found by compile key.

Knows the lockfile and callables, nothing of files, stores or drivers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernelforge.contract import JitKernel, kernel_name, kernel_name_of_key, symbol_of
from kernelforge.device import DeviceProfile
from kernelforge.digest import Digest
from kernelforge.encoding import fields_json
from kernelforge.errors import CallRefused, KernelMissing, LaunchCodeDiffers, UsageError
from kernelforge.key_memo import KeyMemo
from kernelforge.loader.decision import decision_digest
from kernelforge.loader.fork import loaded_before_fork, watch_forks
from kernelforge.loader.missing import kernel_missing, no_such_kernel, text_of
from kernelforge.loader.stats import HITS, MISSES, Counters, LoadStats, StepClock
from kernelforge.lockfile import LockedEntry, Lockfile

if TYPE_CHECKING:
    from kernelforge.loader.jit import Jit

Kernel = Callable[..., Any]

# Keys that are kept alive to be known again; a caller that makes a new key for every call gains nothing by them.
_IDENTITY_LIMIT = 4096

# Launch code is read once per class and process (15 ms): what runs is what was imported, whatever its file says by now.
_fingerprints: dict[type, Digest] = {}


class KernelSet:
    """Callable kernels: ``kernels[QkNorm.CompileKey(...)]``, or ``QkNorm(kernels)(q=..., k=...)``.

    Made by ``load``. ``device`` is the device profile out of the lockfile, ``lockfile_digest`` that of the lockfile's
    bytes. Iteration gives (kernel name, compile key as JSON) pairs. May be used from several threads. In a process that
    was forked since, looking up a kernel raises ``LoadedBeforeFork``, and so does calling one that CUDA refuses there.
    """

    def __init__(
        self,
        lock: Lockfile,
        *,
        lockfile_digest: Digest,
        profile: str,
        functions: Mapping[str, Kernel],
        stats: LoadStats,
        clock: StepClock,
        jit: Jit | None = None,
    ) -> None:
        self.device: DeviceProfile = lock.devices[profile]
        self.lockfile_digest = lockfile_digest
        self._launch_fingerprints = {name: kernel.launch_fingerprint for name, kernel in lock.kernels.items()}
        self._lock = lock
        self._functions = functions
        self._stats = stats
        self._clock = clock
        self._counters = clock.counters
        self._jit = jit
        self._memos: dict[type, KeyMemo[Kernel]] = {}
        self._by_identity: dict[int, tuple[object, Kernel]] = {}
        self._asked_for: dict[str, Kernel] = {}
        self._bound: set[type] = set()
        self._not_locked: set[str] = set()
        self._is_of_parent = False
        watch_forks(self)

    def __getitem__(self, compile_key: Any) -> Kernel:
        """The kernel for a compile key; ``KernelMissing`` names the nearest keys and the fields that differ.

        Under the policy 'jit' a key that the lockfile lacks is compiled now: the call blocks, with one warning.
        Keep the result where the key does not change: calling it costs what a call through tvm-ffi costs. Calling it
        with arguments that it was not compiled for raises ``CallRefused`` before anything is launched. What the class
        checks by itself (``bounds``, rows of a written tensor that overlap) is not checked here.
        """
        # The very object that was asked for before, which is what dispatch remembers: 0.1 us, by its fields 1 us.
        held = self._by_identity.get(id(compile_key))
        if held is not None and held[0] is compile_key:
            return held[1]
        memo = self._memos.get(type(compile_key))
        kernel = memo.get(compile_key) if memo is not None else None
        if kernel is None:
            kernel = self._find(compile_key)
        with contextlib.suppress(TypeError):  # a key with a field that can change has no hash, and may be another later
            hash(compile_key)
            if len(self._by_identity) >= _IDENTITY_LIMIT:
                self._by_identity.clear()
            self._by_identity[id(compile_key)] = compile_key, kernel
        return kernel

    def __iter__(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        return ((entry.kernel, entry.compile_key) for entry in self._entries())

    def __len__(self) -> int:
        return len(self._functions)

    def bind(self, kernel_class: type[JitKernel[Any]]) -> None:
        """Raise unless the class is the one that its kernels were built for; checked once per class.

        ``KernelMissing`` if the lockfile has no kernel of this name (under 'jit' that is fine), ``LaunchCodeDiffers``
        if the class's dispatch or launch code is other code: it might pick a wrong kernel, or call it with other
        arguments.
        """
        if kernel_class in self._bound:
            return
        name = kernel_name(kernel_class)
        if name not in self._launch_fingerprints:
            if self._jit is None:
                raise no_such_kernel(name, self._launch_fingerprints)
            return  # nothing was built for it: whatever it asks for is compiled from the class as it is here
        built, here = self._launch_fingerprints[name], _launch_fingerprint(kernel_class)
        if built != here:
            raise LaunchCodeDiffers(
                f"the launch code of {name} is {here}, the lockfile was built with {built}",
                hint="deploy the version of the class that the lockfile was built from, or build again with this one",
                where=name,
            )
        self._bound.add(kernel_class)

    def require(self, needed: Mapping[type[JitKernel[Any]] | str, Iterable[Any]]) -> None:
        """Raise ``KernelMissing`` unless there is a kernel for every one of these keys; the text lists all that lack.

        ``needed`` maps a kernel class, or its name, to compile keys. ``UsageError`` for a key of another kernel. Under
        the policy 'jit' those that lack are compiled, which raises what ``Jit.kernel`` raises.
        """
        missing = []
        for kernel, keys in needed.items():
            name = kernel if isinstance(kernel, str) else kernel_name(kernel)
            for key in keys:
                if kernel_name_of_key(key) != name:
                    raise UsageError(f"{key!r} is no key of {name}", hint=f"it is one of {kernel_name_of_key(key)}")
                if symbol_of(name, key) in self._functions:
                    continue
                if self._jit is not None:
                    self._not_locked.add(symbol_of(name, key))
                    self._find(key)
                else:
                    missing.append((name, fields_json(key, where=type(key).__qualname__)))
        if missing:
            raise self._missing(missing)

    @property
    def decision(self) -> Digest:
        """Equal on all ranks that decided alike: compare it, in a collective, before the first launch.

        Covers the lockfile, the device profile chosen from it, the pack, the policy, and the required keys that are not
        in the lockfile; not where the bytes came from.
        """
        return decision_digest(
            lockfile=self.lockfile_digest,
            profile=self.device.name,
            pack=self._lock.packs[self.device.name].blob.content_digest,
            policy="strict" if self._jit is None else "jit",
            missing=self._not_locked,
        )

    def stats(self) -> LoadStats:
        """How the load went (seconds by step, where the pack came from, its size), and what was counted until now."""
        hits = len(self._asked_for.keys() & self._functions.keys())
        counters = {HITS: hits, MISSES: 0, **self._counters.snapshot()}
        return replace(self._stats, seconds=dict(self._clock.seconds), counters=counters)

    def metrics(self) -> str:
        """The same as OpenMetrics text, to be served as ``application/openmetrics-text; version=1.0.0``."""
        from kernelforge.loader.metrics import openmetrics_text

        return openmetrics_text(
            self.stats(), device=self.device.name, arch=self.device.arch, lockfile=self.lockfile_digest
        )

    def forget_after_fork(self) -> None:
        """Make every look-up of this process, which is a new child, an error; see ``fork``."""
        self._memos = {}
        self._by_identity = {}
        self._is_of_parent = True

    def _find(self, compile_key: Any) -> Kernel:
        if self._is_of_parent:
            raise loaded_before_fork()
        name = kernel_name_of_key(compile_key)
        symbol = symbol_of(name, compile_key)
        function = self._functions.get(symbol)
        if function is None:
            function = self._on_miss(name, symbol, compile_key)
        made = _refusing(function, compile_key, self._counters)
        kernel = self._asked_for.setdefault(symbol, made)
        self._memos.setdefault(type(compile_key), KeyMemo(type(compile_key))).add(compile_key, kernel)
        return kernel

    def _on_miss(self, name: str, symbol: str, compile_key: Any) -> Kernel:
        """What the policy says about a key that the lockfile lacks: compile it, or an error."""
        asked = fields_json(compile_key, where=type(compile_key).__qualname__)
        if self._jit is not None:
            return self._jit.kernel(name, symbol, asked)
        if name not in self._launch_fingerprints:
            raise no_such_kernel(name, self._launch_fingerprints)
        raise self._missing([(name, asked)])

    def _missing(self, asked: Sequence[tuple[str, Mapping[str, Any]]]) -> KernelMissing:
        self._counters.add(MISSES, len(asked))
        return kernel_missing(asked, self._entries())

    def _entries(self) -> tuple[LockedEntry, ...]:
        """Read from the lockfile when somebody asks: calls need none of them."""
        return self._lock.entries_for(self.device.name)


def _launch_fingerprint(kernel_class: type) -> Digest:
    if kernel_class not in _fingerprints:
        from kernelforge.fingerprint import launch_fingerprint

        _fingerprints[kernel_class] = launch_fingerprint(kernel_name(kernel_class)).digest
    return _fingerprints[kernel_class]


def _refusing(function: Kernel, compile_key: Any, counters: Counters) -> Kernel:
    """``function`` with the refusals of the checks compiled into it as ``CallRefused``: 0.05 us of a call's 5 us.

    These checks come before the launch and raise exactly these two; CUDA's own errors are ``RuntimeError``, as is that
    of every launch in a process forked since.
    """
    loaded_by = os.getpid()

    def kernel(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (TypeError, ValueError) as error:
            refusal = CallRefused(
                f"{error}; nothing was launched",
                hint=f"the kernel was compiled for {text_of(fields_json(compile_key, where='key'))}",
                where=kernel_name_of_key(compile_key),
            )
            counters.add_error(refusal)
            raise refusal from error
        except RuntimeError as error:
            if os.getpid() != loaded_by:
                raise loaded_before_fork() from error
            raise

    return kernel
