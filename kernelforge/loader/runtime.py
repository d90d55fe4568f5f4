"""Has this process what a pack needs: the driver, the CUDA runtime, tvm-ffi, and every symbol out of them?

Asked before the pack is opened, because the answers of the dynamic linker come too late (an undefined function ends
the process at its first call) and name no cause. Knows no lockfile beyond the pack's own entry.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from kernelforge.errors import RuntimeUnfit
from kernelforge.lockfile import LockedPack

_log = logging.getLogger(__name__)

# The compiler's wheels for CUDA 12 hold 12.9, whose code the drivers before 575 refuse at the first launch; code of
# the CUDA 13 wheels ran with 13.0 drivers. Suffixed architectures exclude the drivers' own help, PTX.
_OLDEST_DRIVER_CUDA = {"cu12": (12, 9), "cu13": (13, 0)}


def check_driver(driver_cuda: tuple[int, int], pack: LockedPack) -> None:
    """Raise ``RuntimeUnfit`` when the driver is too old for the pack's CUDA flavour."""
    oldest = _OLDEST_DRIVER_CUDA[pack.target.cuda]
    if driver_cuda < oldest:
        found, expected = (f"{major}.{minor}" for major, minor in (driver_cuda, oldest))
        older = (
            " or build for cu12" if pack.target.cuda == "cu13" and driver_cuda >= _OLDEST_DRIVER_CUDA["cu12"] else ""
        )
        raise RuntimeUnfit(
            f"the driver supports CUDA up to {found}, the pack is for {pack.target.cuda} and needs {expected}",
            hint=f"install a driver for CUDA {expected} or later{older}",
        )


def prepare_runtime(pack: LockedPack) -> None:
    """Bring in tvm-ffi and the libraries that the pack needs, and check that they have all its symbols.

    The libraries stay in this process and their symbols become visible to all of it, since the pack looks for them
    there. Raises ``RuntimeUnfit`` with everything that is missing at once.
    """
    _import_tvm_ffi()
    problems = [problem for library in pack.needed if (problem := _open(library))]
    everything = ctypes.CDLL(None)
    absent = [symbol for symbol in pack.undefined if not _has(everything, symbol)]
    if absent:
        problems.append(f"no library of this process has {', '.join(absent)}")
    if not problems:
        problems = list(_foreign_cuda_runtime(everything, pack))
    if problems:
        raise RuntimeUnfit(
            f"this process cannot open the pack for {pack.target}: {'; '.join(problems)}",
            hint=f"install {_advice(pack)}; {_found_versions(everything)}",
        )


def _import_tvm_ffi() -> None:
    try:
        import tvm_ffi  # noqa: F401 (brings libtvm_ffi.so into the process, for everybody to see)
    except ImportError as error:
        raise RuntimeUnfit(f"tvm-ffi cannot be imported: {error}", hint="pip install apache-tvm-ffi") from error


def _open(library: str) -> str:
    """Make a library's symbols visible to the whole process; what went wrong, or nothing."""
    failures = []
    # By name first: that finds the copy which the process has already, torch's above all.
    for candidate in itertools.chain([library], _in_wheels(library)):
        failure = _open_one(candidate)
        if not failure:
            return ""
        failures.append(failure)
    return f"{library} cannot be opened ({'; '.join(failures)})"


def _open_one(name: str) -> str:
    try:
        ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    _log.debug("opened %s", name)
    return ""


def _in_wheels(library: str) -> Iterator[str]:
    """Paths of a CUDA library inside NVIDIA's wheels, which no search path of the dynamic linker names."""
    for folder in sys.path:
        if os.path.isabs(folder):
            yield from map(str, sorted(Path(folder).glob(f"nvidia/*/lib/{library}")))


def _has(library: ctypes.CDLL, symbol: str) -> bool:
    try:
        library[symbol]
    except AttributeError:
        return False
    return True


def _foreign_cuda_runtime(everything: ctypes.CDLL, pack: LockedPack) -> Iterator[str]:
    """Symbols are found by name alone: beside a torch for CUDA 12, a pack for 13 would get the functions of 12."""
    if not any(library.startswith("libcudart.") for library in pack.needed):
        return
    major = _cuda_runtime_version(everything) // 1000
    if pack.target.cuda != f"cu{major}":
        yield f"its CUDA runtime is that of CUDA {major}"


def _cuda_runtime_version(everything: ctypes.CDLL) -> int:
    version = ctypes.c_int()
    everything.cudaRuntimeGetVersion(ctypes.byref(version))
    return version.value


def _advice(pack: LockedPack) -> str:
    cuda = pack.target.cuda.removeprefix("cu")
    return (
        f"the CUDA {cuda} runtime (torch for CUDA {cuda} has it, or the wheel nvidia-cuda-runtime) and apache-tvm-ffi"
    )


def _found_versions(everything: ctypes.CDLL) -> str:
    import tvm_ffi

    runtime = _cuda_runtime_version(everything) if _has(everything, "cudaRuntimeGetVersion") else None
    cuda = f"CUDA runtime {runtime // 1000}.{runtime % 1000 // 10}" if runtime else "no CUDA runtime"
    return f"found: {cuda}, apache-tvm-ffi {tvm_ffi.__version__}"
