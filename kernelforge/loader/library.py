"""Verified bytes -> callables: opens the pack with tvm-ffi and looks up every symbol at once.

A pack stays open for the life of the process: the CUDA modules inside it are registered with the CUDA runtime, and
callables may outlive whoever asked for them. Knows nothing of compile keys.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kernelforge.digest import Digest
from kernelforge.errors import PackCorrupt, RuntimeUnfit
from kernelforge.loader.pack import FoundPack
from kernelforge.target import Target

# ptxas notes its options in every image but those that CUDA 12's makes for sm_80 to sm_90a: these name no architecture.
_NAMED_ARCH = re.compile(rb"-arch (sm_[0-9]+[a-z]?)\b")
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

# The dynamic linker knows libraries by path: asked for a path again it answers with what it opened first, whatever the
# file holds by now. Path -> content of each pack that this process has opened.
_opened: dict[str, Digest] = {}


def check_images(data: bytes, target: Target) -> None:
    """Raise ``PackCorrupt`` when device code inside the pack is for another architecture than the lockfile says."""
    named = {name.decode() for name in _NAMED_ARCH.findall(data)}
    if named - {target.arch}:
        raise PackCorrupt(
            f"the lockfile says {target.arch}, the device code in the pack is for {', '.join(sorted(named))}",
            hint="the lockfile was not made by a build: build again",
        )


def open_pack(pack: FoundPack, content: Digest) -> Any:
    """Open a pack whose bytes were verified and return its tvm-ffi module; ``RuntimeUnfit`` if the linker refuses."""
    import tvm_ffi

    path = _memory_file(pack.data) if pack.file is None else _unambiguous(pack.file, content)
    try:
        # By its registered name, because tvm_ffi.load_module wants the path to end in .so, which memory has not.
        module = tvm_ffi.get_global_func("ffi.Module.load_from_file.so")(path, "so")
    except RuntimeError as error:
        raise RuntimeUnfit(
            f"the pack cannot be opened: {error}",
            hint="is its folder mounted noexec? choose another with KERNELFORGE_CACHE",
            where=path,
        ) from error
    tvm_ffi.get_global_func("ffi.ModuleGlobalsAdd")(module)
    _opened[path] = content
    return module


def look_up(module: Any, symbols: Iterable[str]) -> Mapping[str, Callable[..., Any]]:
    """Callable of every symbol; ``PackCorrupt`` names all that the library lacks."""
    functions = {symbol: _function(module, symbol) for symbol in symbols}
    absent = [symbol for symbol, function in functions.items() if function is None]
    if absent:
        raise PackCorrupt(
            f"the pack lacks {len(absent)} of the lockfile's symbols: {', '.join(absent)}",
            hint="the lockfile was not made by the build that made the pack: build again",
        )
    return {symbol: function for symbol, function in functions.items() if function is not None}


def _function(module: Any, symbol: str) -> Callable[..., Any] | None:
    try:
        function: Callable[..., Any] = module.get_function(symbol)
    except AttributeError:
        return None
    return function


def _unambiguous(file: Path, content: Digest) -> str:
    path = os.path.realpath(file)
    before = _opened.get(path, content)
    if before != content:
        raise RuntimeUnfit(
            f"this process has opened other content ({before}) under this path before, and would get that again",
            hint="give the new pack a path of its own, or restart the process",
            where=path,
        )
    return path


def _memory_file(data: bytes) -> str:
    """A path to a copy in memory that nobody can change any more.

    Its descriptor is never closed: the next file to get its number would have a path that was opened before.
    """
    descriptor = os.memfd_create("kernelforge-pack", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return f"/proc/self/fd/{descriptor}"
