"""What ``load`` returns: the kernels of one release for one device, found by compile key.

Knows the lockfile and callables, nothing of files, stores or drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kernelforge.contract import JitKernel, kernel_name, kernel_name_of_key, symbol_of
from kernelforge.device import DeviceProfile
from kernelforge.digest import Digest
from kernelforge.encoding import fields_json
from kernelforge.errors import CallRefused, LaunchCodeDiffers, UsageError
from kernelforge.key_memo import KeyMemo
from kernelforge.loader.missing import kernel_missing, no_such_kernel, text_of
from kernelforge.loader.stats import LoadStats
from kernelforge.lockfile import LockedEntry, Lockfile

Kernel = Callable[..., Any]


class KernelSet:
    """Callable kernels: ``kernels[QkNorm.CompileKey(...)]``, or ``QkNorm(kernels)(q=..., k=...)``.

    Made by ``load``. ``device`` is the device profile out of the lockfile, ``lockfile_digest`` that of the lockfile's
    bytes. Iteration gives (kernel name, compile key as JSON) pairs. May be used from several threads.
    """

    def __init__(
        self,
        lock: Lockfile,
        *,
        lockfile_digest: Digest,
        profile: str,
        functions: Mapping[str, Kernel],
        stats: LoadStats,
    ) -> None:
        self.device: DeviceProfile = lock.devices[profile]
        self.lockfile_digest = lockfile_digest
        self._launch_fingerprints = {name: kernel.launch_fingerprint for name, kernel in lock.kernels.items()}
        self._entries = {entry.symbol: entry for entry in lock.entries_for(profile)}
        self._functions = functions
        self._stats = stats
        self._memos: dict[type, KeyMemo[Kernel]] = {}
        self._bound: set[type] = set()

    def __getitem__(self, compile_key: Any) -> Kernel:
        """The kernel for a compile key; ``KernelMissing`` names the nearest keys and the fields that differ.

        Keep the result where the key does not change: calling it costs what a call through tvm-ffi costs. Calling it
        with arguments that it was not compiled for raises ``CallRefused`` before anything is launched.
        """
        memo = self._memos.get(type(compile_key))
        kernel = memo.get(compile_key) if memo is not None else None
        return kernel if kernel is not None else self._find(compile_key)

    def __iter__(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        return ((entry.kernel, entry.compile_key) for entry in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def bind(self, kernel_class: type[JitKernel[Any]]) -> None:
        """Raise unless the class is the one that its kernels were built for; checked once per class.

        ``KernelMissing`` if the lockfile has no kernel of this name, ``LaunchCodeDiffers`` if the class's dispatch or
        launch code is other code: it might pick a wrong kernel, or call it with other arguments.
        """
        if kernel_class in self._bound:
            return
        from kernelforge.fingerprint import launch_fingerprint

        name = kernel_name(kernel_class)
        if name not in self._launch_fingerprints:
            raise no_such_kernel(name, self._launch_fingerprints)
        built, here = self._launch_fingerprints[name], launch_fingerprint(name).digest
        if built != here:
            raise LaunchCodeDiffers(
                f"the launch code of {name} is {here}, the lockfile was built with {built}",
                hint="deploy the version of the class that the lockfile was built from, or build again with this one",
                where=name,
            )
        self._bound.add(kernel_class)

    def require(self, needed: Mapping[type[JitKernel[Any]] | str, Iterable[Any]]) -> None:
        """Raise ``KernelMissing`` unless there is a kernel for every one of these keys; the text lists all that lack.

        ``needed`` maps a kernel class, or its name, to compile keys. ``UsageError`` for a key of another kernel.
        """
        missing = []
        for kernel, keys in needed.items():
            name = kernel if isinstance(kernel, str) else kernel_name(kernel)
            for key in keys:
                if kernel_name_of_key(key) != name:
                    raise UsageError(f"{key!r} is no key of {name}", hint=f"it is one of {kernel_name_of_key(key)}")
                if symbol_of(name, key) not in self._entries:
                    missing.append((name, fields_json(key, where=type(key).__qualname__)))
        if missing:
            raise kernel_missing(missing, self._entries.values())

    def stats(self) -> LoadStats:
        """How the load went: seconds by step, where the pack came from, its size."""
        return self._stats

    def _find(self, compile_key: Any) -> Kernel:
        name = kernel_name_of_key(compile_key)
        if name not in self._launch_fingerprints:
            raise no_such_kernel(name, self._launch_fingerprints)
        symbol = symbol_of(name, compile_key)
        if symbol not in self._entries:
            asked = fields_json(compile_key, where=type(compile_key).__qualname__)
            raise kernel_missing([(name, asked)], self._entries.values())
        kernel = _refusing(self._functions[symbol], self._entries[symbol])
        self._memos.setdefault(type(compile_key), KeyMemo(type(compile_key))).add(compile_key, kernel)
        return kernel


def _refusing(function: Kernel, entry: LockedEntry) -> Kernel:
    """``function`` with the refusals of the checks compiled into it as ``CallRefused``: 0.05 us of a call's 5 us.

    These checks come before the launch and raise exactly these two; CUDA's own errors are ``RuntimeError``.
    """

    def kernel(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (TypeError, ValueError) as error:
            raise CallRefused(
                f"{error}; nothing was launched",
                hint=f"the kernel was compiled for {text_of(entry.compile_key)}",
                where=entry.kernel,
            ) from error

    return kernel
