"""Does what a build needs work here: Python, the compiler, the linker, tvm-ffi? Each is used for real.

The compiler and tvm-ffi are tried in processes of their own, as a build and a pod would have them, with a time limit:
they import much, and a broken one may hang or take its process with it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from kernelforge.builder.compiler import ARCH_VARIABLE
from kernelforge.builder.link import cuda_stub, find_linker
from kernelforge.cli.doctor_check import Check, Status
from kernelforge.errors import KernelForgeError, ToolchainError
from kernelforge.keys.toolchain import CALL_INTERFACE, COMPILER, installed_toolchain
from kernelforge.loader.host import host_triple
from kernelforge.target import Target

# Importing the compiler and a first compile take 2 s here; a cold network disk takes much longer.
_LIMIT_S = 120
_ARCH = "sm_90a"
_ONLY_FOR_BUILDING = "nothing, if kernels are only loaded here; to build: pip install 'kernelforge[build]'"
_PYTHONS = ((3, 10), (3, 13))

_COMPILE = f"""
from kernelforge.builder.compiler import import_compiler
from kernelforge.target import Target
import_compiler(Target({_ARCH!r}))
"""
# Packs need the CUDA runtime, which a machine that only builds has not: the linker's stub has the names.
_OPEN_AND_CALL = """
import ctypes, sys
import tvm_ffi
ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)
tvm_ffi.load_module(sys.argv[1])["doctor"]()
"""
# The least that a pack can hold: one callable in tvm-ffi's convention, which does nothing and says that it went well,
# and what preloads its device code, of which there is none.
_OBJECT_SOURCE = """
int __tvm_ffi_doctor(void *self, const void *arguments, int count, void *result) { return 0; }
int __cute_internal_doctor_preload(int device, void **library) { return 0; }
"""


def check_python() -> Check:
    """Is it one of the versions that kernelforge is tested with?"""
    found = f"{platform.python_implementation()} {platform.python_version()}"
    least, most = _PYTHONS
    if least <= sys.version_info[:2] <= most:
        return Check("python", Status.OK, found)
    return Check("python", Status.WARNING, found, f"use Python {least[0]}.{least[1]} to {most[0]}.{most[1]}")


def check_compiler() -> Check:
    """Import the compiler for one target and compile a very small kernel."""
    if not _is_installed(COMPILER):
        return Check("compiler", Status.WARNING, f"{COMPILER} is not installed", _ONLY_FOR_BUILDING)
    try:
        toolchain = installed_toolchain(Target(_ARCH).cuda)
        with tempfile.TemporaryDirectory(prefix="kernelforge-doctor-") as folder:
            _run_python(_COMPILE, [], Path(folder))
    except KernelForgeError as error:
        return Check.failed("compiler", error)
    return Check("compiler", Status.OK, f"{COMPILER} {toolchain.compiler_version}, {toolchain.cuda}, compiled a kernel")


def check_linker_and_call_interface() -> list[Check]:
    """Link an object as a pack is linked, then open the result with tvm-ffi and call it."""
    with tempfile.TemporaryDirectory(prefix="kernelforge-doctor-") as name:
        folder = Path(name)
        linker = _check_linker(folder)
        return [linker, _check_call_interface(folder)]


def _check_linker(folder: Path) -> Check:
    if not _is_installed("ziglang"):
        return Check("linker", Status.WARNING, "ziglang is not installed", _ONLY_FOR_BUILDING)
    try:
        linker = find_linker(Target(_ARCH, host=host_triple()))
        linked = linker.link([("doctor", _compiled_object(folder))], folder)
    except KernelForgeError as error:
        return Check.failed("linker", error)
    _library(folder).write_bytes(linked.library)
    return Check("linker", Status.OK, f"{linker.identity}, linked a library of {len(linked.library):,} bytes")


def _check_call_interface(folder: Path) -> Check:
    name = "tvm-ffi"
    if not _is_installed(CALL_INTERFACE):
        hint = f"pip install kernelforge (it needs {CALL_INTERFACE})"
        return Check(name, Status.FAILED, f"{CALL_INTERFACE} is not installed", hint)
    library = _library(folder)
    code, done = (_OPEN_AND_CALL, "opened and called a library") if library.exists() else ("import tvm_ffi", "imported")
    try:
        _run_python(code, [str(library), str(cuda_stub(folder, Target(_ARCH)))], folder)
    except ToolchainError as error:
        return Check.failed(name, error)
    return Check(name, Status.OK, f"{CALL_INTERFACE} {metadata.version(CALL_INTERFACE)}, {done}")


def _compiled_object(folder: Path) -> bytes:
    source, output = folder / "doctor.c", folder / "doctor.o"
    source.write_text(_OBJECT_SOURCE)
    command = ["cc", f"--target={host_triple()}", "-c", "-O2", "-fPIC", str(source), "-o", str(output)]
    _run([sys.executable, "-m", "ziglang", *command], folder, "the C compiler of ziglang")
    return output.read_bytes()


def _library(folder: Path) -> Path:
    return folder / "doctor.so"


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _run_python(code: str, arguments: list[str], folder: Path) -> None:
    _run([sys.executable, "-c", code, *arguments], folder, "the test program")


def _run(command: list[str], folder: Path, what: str) -> None:
    """Run a command with a clean environment; ``ToolchainError`` with its last words if it fails or takes too long."""
    environment = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "ZIG_GLOBAL_CACHE_DIR": str(folder),
        "ZIG_LOCAL_CACHE_DIR": str(folder),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "CUDA_VISIBLE_DEVICES": "",
        ARCH_VARIABLE: _ARCH,
    }
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=folder, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        problem = f"{what} did not end within {_LIMIT_S} s"
        raise ToolchainError(problem, hint="is the disk slow? try again, then reinstall kernelforge[build]") from error
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ToolchainError(
            f"{what} ended with {done.returncode}: {words}",
            hint="install what it names, or reinstall kernelforge[build]",
        )
