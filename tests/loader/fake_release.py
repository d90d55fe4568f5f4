"""Releases without a GPU or a kernel compiler: real shared libraries with tvm-ffi entries, and lockfiles for them.

Entry number i of a pack multiplies its one integer argument by i + 1, so that a test sees which entry it got.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelforge.contract import CONTRACT_VERSION, kernel_name, kernel_name_of_key, symbol_of
from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile, Fact, FactValue
from kernelforge.digest import Digest
from kernelforge.encoding import fields_json
from kernelforge.fingerprint import launch_fingerprint
from kernelforge.loader.found_device import FoundDevice
from kernelforge.loader.host import host_triple
from kernelforge.lockfile import LockedEntry, LockedKernel, LockedPack, Lockfile
from kernelforge.target import Target
from tests.loader.scale import Scale

H200 = FoundDevice(
    ordinal=0,
    name="NVIDIA H200",
    capability=(9, 0),
    driver_cuda=(13, 0),
    num_sms=132,
    shared_memory_per_block_bytes=232448,
    shared_memory_per_sm_bytes=233472,
    registers_per_sm=65536,
    l2_bytes=62914560,
    memory_bytes=150754820096,
)
H200_FACTS: Mapping[str, FactValue] = {"num_sms": 132, "l2_bytes": 62914560, "driver_names": ("NVIDIA H200",)}
TARGET = Target("sm_90a", host_triple(), "cu13")
KEYS = (Scale.CompileKey(head_dim=64), Scale.CompileKey(head_dim=128), Scale.CompileKey(head_dim=128, eps=1e-6))
TRACE_VARIABLE = "FAKE_PACK_TRACE"

_HEAD = """
#include <stdio.h>
#include <stdlib.h>
#include <tvm/ffi/c_api.h>
const char options_of_ptxas[] = "-O 3 -arch {arch} ";
__attribute__((constructor)) static void leave_trace(void) {{
  const char *path = getenv("{trace}");
  FILE *trace = path ? fopen(path, "w") : NULL;
  if (trace) fclose(trace);
}}
"""
_ENTRY = """
int __tvm_ffi_{symbol}(void *self, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {{
  if (count != 1 || arguments[0].type_index != kTVMFFIInt) {{
    TVMFFIErrorSetRaisedFromCStr("TypeError", "Expects 1 integer");
    return -1;
  }}
  if (arguments[0].v_int64 < 0) {{
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "CUDA error: device lost");
    return -1;
  }}
  result->type_index = kTVMFFIInt;
  result->v_int64 = arguments[0].v_int64 * {factor};
  return 0;
}}
"""


def compile_pack(folder: Path, symbols: Sequence[str], *, arch: str = "sm_90a") -> bytes:
    """A shared library; when it is opened it makes the file that the variable ``TRACE_VARIABLE`` names."""
    import tvm_ffi

    source, library = folder / "pack.c", folder / "pack.so"
    entries = [_ENTRY.format(symbol=symbol, factor=index + 1) for index, symbol in enumerate(symbols)]
    source.write_text(_HEAD.format(arch=arch, trace=TRACE_VARIABLE) + "".join(entries))
    compile_c(source, library, "-I", str(Path(tvm_ffi.__file__).parent / "include"))
    return library.read_bytes()


def compile_c(source: Path, library: Path, *options: str) -> None:
    """C source -> shared library, with the compiler that the linker's wheel brings."""
    command = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-O2", *options, str(source), "-o"]
    subprocess.run([*command, str(library)], check=True, capture_output=True, text=True)


def profile(name: str, *, arch: str = "sm_90a", facts: Mapping[str, FactValue] = H200_FACTS) -> DeviceProfile:
    """A device profile with these facts, by default those of ``H200``."""
    return DeviceProfile(name, arch, {fact: Fact(value, "the test") for fact, value in facts.items()})


def locked_pack(library: bytes, *, target: Target = TARGET) -> LockedPack:
    """The lockfile's description of a fake pack."""
    return LockedPack(
        target=target,
        recipe=Digest.of(b"recipe"),
        blob=Descriptor.raw(library),
        linker="lld",
        needed=("libtvm_ffi.so",),
        undefined=("TVMFFIErrorSetRaisedFromCStr", "fopen"),
    )


def locked_entry(key: Any, *, target: Target = TARGET, devices: tuple[str, ...] = ("h200-sxm",)) -> LockedEntry:
    """The lockfile's description of one key."""
    kernel = kernel_name_of_key(key)
    return LockedEntry(
        kernel=kernel,
        compile_key=fields_json(key, where="key"),
        target=target,
        key_digest=Digest.of(repr(key).encode()),
        symbol=symbol_of(kernel, key),
        object=Descriptor.raw(b"object"),
        devices=devices,
    )


def lockfile(library: bytes, keys: Sequence[Any] = KEYS) -> Lockfile:
    """A lockfile with one kernel class, one device profile and one pack."""
    kernel = kernel_name(Scale)
    return Lockfile(
        name="test",
        abi="tvm-ffi",
        contract=CONTRACT_VERSION,
        toolchains={"cu13": {"nvidia-cutlass-dsl": "4.8.1"}},
        devices={"h200-sxm": profile("h200-sxm")},
        kernels={
            kernel: LockedKernel(
                launch_fingerprint=launch_fingerprint(kernel).digest,
                source_fingerprint=Digest.of(b"source"),
                sources={},
                compile_options="",
            )
        },
        entries=tuple(locked_entry(key) for key in keys),
        packs={"h200-sxm": locked_pack(library)},
    )


def with_pack(lock: Lockfile, **changes: Any) -> Lockfile:
    """The same lockfile with fields of its pack changed."""
    return replace(lock, packs={"h200-sxm": replace(lock.packs["h200-sxm"], **changes)})
