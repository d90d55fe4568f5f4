"""Verified bytes -> callables: opens the pack with tvm-ffi and looks up every symbol at once.

A pack stays open for the life of the process: the CUDA modules inside it are registered with the CUDA runtime, and
callables may outlive whoever asked for them. Knows nothing of compile keys.
"""

from __future__ import annotations

import fcntl
import mmap
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
_C_INTERFACE = "__mlir_ciface_"
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

# The dynamic linker knows libraries by path: asked for a path again it answers with what it opened first, whatever the
# file holds by now. Path -> content of each pack that this process has opened.
_opened: dict[str, Digest] = {}


def check_image(data: bytes | mmap.mmap, target: Target) -> None:
    """Raise ``PackCorrupt`` when device code inside the pack is for another architecture than the lockfile says.

    Looks at one image, which tells a pack that goes under a wrong name. That every image of a pack is for one
    architecture is the build's to check, object by object; looking at all of them here took as long as their sha256.
    """
    # The images lie together, around the middle of a pack of many: host code comes before them, symbols after.
    named = _NAMED_ARCH.search(data, len(data) // 2) or _NAMED_ARCH.search(data)
    if named and named[1].decode() != target.arch:
        raise PackCorrupt(
            f"the lockfile says {target.arch}, the device code in the pack is for {named[1].decode()}",
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


def look_up(module: Any, symbols: Iterable[str], data: bytes | mmap.mmap) -> Mapping[str, Callable[..., Any]]:
    """Callable of every symbol; ``PackCorrupt`` names all that the library lacks. ``data``: the library's bytes."""
    functions = {symbol: _function(module, symbol) for symbol in symbols}
    absent = [symbol for symbol, function in functions.items() if function is None]
    if absent:
        raise _lacking(absent, data)
    return {symbol: function for symbol, function in functions.items() if function is not None}


def _lacking(absent: list[str], data: bytes | mmap.mmap) -> PackCorrupt:
    # What the compiler's export without tvm-ffi calls its entries; called as the others are, they would read the
    # arguments as something else.
    with_c_interface = [symbol for symbol in absent if data.find(f"{symbol}{_C_INTERFACE}".encode()) >= 0]
    if with_c_interface:
        return PackCorrupt(
            f"the call interface of {', '.join(with_c_interface)} is expected to be tvm-ffi and is C",
            hint="the objects were exported without tvm-ffi: build again with 'kernelforge build'",
        )
    return PackCorrupt(
        f"the pack lacks {len(absent)} of the lockfile's symbols: {', '.join(absent)}",
        hint="the lockfile was not made by the build that made the pack: build again",
    )


def _function(module: Any, symbol: str) -> Callable[..., Any] | None:
    try:
        function: Callable[..., Any] = module.get_function(symbol)
    except AttributeError:
        return None
    return function


def _unambiguous(file: Path, content: Digest) -> str:
    path = os.fspath(file)  # its symbolic links were followed when it was found
    before = _opened.get(path, content)
    if before != content:
        raise RuntimeUnfit(
            f"this process has opened other content ({before}) under this path before, and would get that again",
            hint="give the new pack a path of its own, or restart the process",
            where=path,
        )
    return path


def _memory_file(data: bytes | mmap.mmap) -> str:
    """A path to a copy in memory that nobody can change any more.

    Its descriptor is never closed: the next file to get its number would have a path that was opened before.
    """
    descriptor = os.memfd_create("kernelforge-pack", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return f"/proc/self/fd/{descriptor}"
