"""Calls a compiled kernel's host code on a machine with no GPU and tells what it would have launched.

Objects are linked as the builder links packs, against a CUDA runtime that only records. Tensors are addresses: nothing
reads their content here.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from kernelforge.builder.host_object import library_symbols
from kernelforge.builder.link import find_linker
from kernelforge.target import Target

_RECORDER = Path(__file__).with_name("recording_cuda.c")
_DLPACK_CUDA = 2
_DLPACK_DTYPE_CODES = {"float16": 2, "bfloat16": 4}
_FFI_NONE, _FFI_TENSOR = 0, 7


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _FfiAny(ctypes.Structure):
    _fields_ = (("type_index", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", ctypes.c_uint64))


class _Config(ctypes.Structure):
    _fields_ = (("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3))


@dataclass(frozen=True)
class FakeTensor:
    """A CUDA tensor of 16-bit elements as a framework would hand it over; strides in elements."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def as_dlpack(self) -> DLTensor:
        """Strides of dimensions of one element are 1, as PyTorch exports them."""
        strides = [1 if size == 1 else stride for size, stride in zip(self.shape, self.stride, strict=True)]
        numbers = ctypes.c_int64 * len(self.shape)
        code = _DLPACK_DTYPE_CODES[self.dtype]
        ndim = len(self.shape)
        return DLTensor(self.address, _DLPACK_CUDA, 0, ndim, code, 16, 1, numbers(*self.shape), numbers(*strides), 0)


@dataclass(frozen=True)
class Launch:
    """What reached the CUDA runtime."""

    blocks: int
    threads: int
    parameters: list[bytes]


class RecordedPack:
    """The given objects, linked and loaded; one process can hold one."""

    def __init__(self, objects: Sequence[tuple[str, bytes]], target: Target, folder: Path) -> None:
        library = find_linker(target).link(objects, folder).library
        ctypes.CDLL(str(_tvm_ffi_library()), ctypes.RTLD_GLOBAL)
        self._recorder = ctypes.CDLL(str(recording_runtime(library, target, folder)), ctypes.RTLD_GLOBAL)
        pack = folder / "pack.so"
        pack.write_bytes(library)
        self._pack = ctypes.CDLL(str(pack))

    def call(
        self, symbol: str, arguments: Sequence[FakeTensor | None], parameter_bytes: Sequence[int]
    ) -> Launch | None:
        """The launch that this call makes; None when the host code refuses its arguments."""
        tensors = [None if argument is None else argument.as_dlpack() for argument in arguments]
        values = (_FfiAny * len(tensors))()
        for i, tensor in enumerate(tensors):
            values[i] = (
                _FfiAny(_FFI_NONE, 0, 0) if tensor is None else _FfiAny(_FFI_TENSOR, 0, ctypes.addressof(tensor))
            )
        self._expect(parameter_bytes)
        launches = ctypes.c_int.in_dll(self._recorder, "recorded_launches")
        before = launches.value
        result = _FfiAny(_FFI_NONE, 0, 0)
        entry = getattr(self._pack, f"__tvm_ffi_{symbol}")
        status = entry(None, values, ctypes.c_int(len(tensors)), ctypes.byref(result))
        if status != 0:
            assert launches.value == before, "launched and refused"
            return None
        assert launches.value == before + 1
        return self._launch(parameter_bytes)

    def _expect(self, parameter_bytes: Sequence[int]) -> None:
        ctypes.c_int.in_dll(self._recorder, "recorded_parameter_count").value = len(parameter_bytes)
        sizes = (ctypes.c_size_t * 16).in_dll(self._recorder, "recorded_parameter_bytes")
        sizes[: len(parameter_bytes)] = list(parameter_bytes)

    def _launch(self, parameter_bytes: Sequence[int]) -> Launch:
        config = _Config.in_dll(self._recorder, "recorded_config")
        content = ((ctypes.c_ubyte * 256) * 16).in_dll(self._recorder, "recorded_parameters")
        assert list(config.grid[1:]) == list(config.block[1:]) == [1, 1]
        parameters = [bytes(content[i])[:size] for i, size in enumerate(parameter_bytes)]
        return Launch(config.grid[0], config.block[0], parameters)


def recording_runtime(pack: bytes, target: Target, folder: Path) -> Path:
    """A library of the CUDA runtime's name, loaded before the pack, so that the pack finds it in memory."""
    name = f"libcudart.so.{target.cuda.removeprefix('cu')}"
    text = _RECORDER.read_text()
    needed = sorted(symbol for symbol in library_symbols(pack).undefined if symbol.startswith("cuda"))
    stubs = "".join(f"int {symbol}(void) {{ return 0; }}\n" for symbol in needed if f"{symbol}(" not in text)
    source, library = folder / "recording_cuda.c", folder / name
    source.write_text(text + stubs)
    # Without -O zig adds checks that need a library of its own.
    flags = ["-O1", "-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{name}"]
    command = [sys.executable, "-m", "ziglang", "cc"]
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)}
    subprocess.run([*command, *flags, "-o", str(library), str(source)], check=True, env=caches, capture_output=True)
    return library


def _tvm_ffi_library() -> Path:
    spec = util.find_spec("tvm_ffi")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "lib", "libtvm_ffi.so")
