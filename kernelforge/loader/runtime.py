"""Has this process what a pack needs: the driver, the CUDA runtime, tvm-ffi, and every symbol out of them?

Asked before the pack is opened, because the answers of the dynamic linker come too late (an undefined function ends
the process at its first call) and name no cause. Knows no lockfile beyond the pack's own entry.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from kernelforge.errors import RuntimeUnfit
from kernelforge.loader.driver import driver_release
from kernelforge.loader.linker import absent, number_from, open_for_all
from kernelforge.lockfile import LockedPack

_log = logging.getLogger(__name__)

# The compiler's wheels for CUDA 12 hold 12.9, whose code the drivers before 575 refuse at the first launch; code of
# the CUDA 13 wheels ran with 13.0 drivers. Suffixed architectures exclude the drivers' own help, PTX.
_OLDEST_DRIVER_CUDA = {"cu12": (12, 9), "cu13": (13, 0)}
# The first release for each, from NVIDIA's table of toolkit and driver versions.
_OLDEST_DRIVER_RELEASE = {"cu12": "575.51.03", "cu13": "580.65.06"}
_CUDA_RUNTIME_VERSION = "cudaRuntimeGetVersion"
# Prefix of a symbol -> who has it. The distribution that the pack was built with is in the lockfile's toolchain.
_PROVIDERS = {
    "TVMFFI": "apache-tvm-ffi",
    "CuteDSLRT": "nvidia-cutlass-dsl-libs-{cuda}",
    "_cuda": "nvidia-cutlass-dsl-libs-{cuda}",
}


def check_driver(driver_cuda: tuple[int, int], pack: LockedPack) -> None:
    """Raise ``RuntimeUnfit`` when the driver is too old for the pack's CUDA flavour.

    There is nothing to fall back to: packs hold no PTX that an older driver could compile for itself.
    """
    oldest = _OLDEST_DRIVER_CUDA[pack.target.cuda]
    if driver_cuda < oldest:
        found, expected = (f"{major}.{minor}" for major, minor in (driver_cuda, oldest))
        older = (
            " or build for cu12" if pack.target.cuda == "cu13" and driver_cuda >= _OLDEST_DRIVER_CUDA["cu12"] else ""
        )
        release = driver_release()
        raise RuntimeUnfit(
            f"the driver{f' {release}' if release else ''} supports CUDA up to {found}, "
            f"the pack is for {pack.target.cuda} and needs {expected}",
            hint=f"install driver {_OLDEST_DRIVER_RELEASE[pack.target.cuda]} or later (CUDA {expected}){older}",
        )


def prepare_runtime(pack: LockedPack, built_with: Mapping[str, str]) -> None:
    """Bring in tvm-ffi and the libraries that the pack needs, and check that they have all its symbols.

    ``built_with``: distribution -> version of the pack's toolchain, for the error. The libraries stay in this process
    and their symbols become visible to all of it, since the pack looks for them there. Raises ``RuntimeUnfit`` with
    everything that is missing at once.
    """
    _import_tvm_ffi()
    problems = [problem for library in pack.needed if (problem := _open(library))]
    lacking = absent(pack.undefined)
    if lacking:
        problems.append(f"no library of this process has {', '.join(lacking)}")
        problems += _too_old(lacking, pack, built_with)
    if not problems:
        problems = list(_foreign_cuda_runtime(pack))
    if problems:
        raise RuntimeUnfit(
            f"this process cannot open the pack for {pack.target}: {'; '.join(problems)}",
            hint=f"install {_advice(pack, built_with)}; {_found_versions()}",
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
        failure = open_for_all(candidate)
        if not failure:
            _log.debug("opened %s", candidate)
            return ""
        failures.append(failure)
    return f"{library} cannot be opened ({'; '.join(failures)})"


def _in_wheels(library: str) -> Iterator[str]:
    """Paths of a CUDA library inside NVIDIA's wheels, which no search path of the dynamic linker names."""
    for folder in sys.path:
        if os.path.isabs(folder):
            yield from map(str, sorted(Path(folder).glob(f"nvidia/*/lib/{library}")))


def _too_old(lacking: list[str], pack: LockedPack, built_with: Mapping[str, str]) -> Iterator[str]:
    """Which installed distribution should have had the symbols, and which version the pack was built with."""
    for prefix, name in _PROVIDERS.items():
        distribution = name.format(cuda=pack.target.cuda)
        if distribution in built_with and any(symbol.startswith(prefix) for symbol in lacking):
            found = _installed(distribution)
            yield f"the pack needs {distribution} {built_with[distribution]} or later, found {found or 'none'}"


def _installed(distribution: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _foreign_cuda_runtime(pack: LockedPack) -> Iterator[str]:
    """Symbols are found by name alone: beside a torch for CUDA 12, a pack for 13 would get the functions of 12."""
    if not any(library.startswith("libcudart.") for library in pack.needed):
        return
    version = number_from(_CUDA_RUNTIME_VERSION)
    if version is None:
        yield "its CUDA runtime does not tell its version"
    elif pack.target.cuda != f"cu{version // 1000}":
        yield f"its CUDA runtime is that of CUDA {version // 1000}"


def _advice(pack: LockedPack, built_with: Mapping[str, str]) -> str:
    cuda = pack.target.cuda.removeprefix("cu")
    tvm_ffi = f"apache-tvm-ffi {built_with.get('apache-tvm-ffi', '')}".rstrip()
    return f"the CUDA {cuda} runtime (torch for CUDA {cuda} has it, or the wheel nvidia-cuda-runtime) and {tvm_ffi}"


def _found_versions() -> str:
    import tvm_ffi

    runtime = number_from(_CUDA_RUNTIME_VERSION)
    cuda = f"CUDA runtime {runtime // 1000}.{runtime % 1000 // 10}" if runtime else "no CUDA runtime"
    return f"found: {cuda}, apache-tvm-ffi {tvm_ffi.__version__}"
