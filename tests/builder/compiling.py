"""What the builder's tests share: test kernels to jobs, and a pool run to its end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelforge.builder.job import CompileJob, Finished, Limits, Setup
from kernelforge.builder.pool import Pool
from kernelforge.contract import Choices, symbol_of
from kernelforge.device import DeviceProfile
from kernelforge.keys.enumerate import enumerate_keys
from kernelforge.request import KernelRequest
from kernelforge.target import Target

# What a user of the compiler writes, with nothing of the builder: one process, one kernel, host JIT included.
_PLAIN = """
import os, sys
os.environ["CUTE_DSL_ARCH"] = "sm_90a"
import cutlass
from cutlass import cute
from cutlass.base_dsl.compiler import EnableTVMFFI, GPUArch
from tests.kernel_family import Copy
key = Copy.CompileKey(width=32, num_sms=132)
stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
entry, inputs = Copy.kernel(key), Copy().warmup_inputs(key)
compiled = cute.compile[GPUArch("sm_90a"), EnableTVMFFI(True)](entry, *inputs, stream)
if sys.argv[3] == "pinned":
    from kernelforge.builder.host_code import pin_host_processor
    from kernelforge.builder.preload_code import add_preload
    add_preload(compiled)
    pin_host_processor(compiled)
compiled.export_to_c(sys.argv[1], function_name=sys.argv[2])
"""


LIMITS = Limits(seconds=120.0, memory_bytes=4 << 30)


def requests_of(*class_names: str, widths: tuple[int, ...] = (32,)) -> tuple[KernelRequest, ...]:
    """Requests for classes of `tests.kernel_family`."""
    return tuple(KernelRequest(f"tests.kernel_family:{name}", {"width": Choices(widths)}) for name in class_names)


def compile_all(
    requests: Sequence[KernelRequest],
    profiles: Sequence[DeviceProfile],
    folder: Path,
    *,
    limits: Limits = LIMITS,
    workers: int = 2,
    cuda: str = "cu13",
) -> dict[tuple[str, str], Finished]:
    """Compile every key of the requests for every profile; results by (class name, architecture)."""
    jobs, setups = [], []
    for profile in profiles:
        target = Target(profile.arch, cuda=cuda)
        setups.append(Setup(target, tuple(sys.path), tuple(requests), (profile,), limits))
        for request in requests:
            for key in enumerate_keys(request, profile).keys:
                jobs.append(CompileJob(len(jobs), request.kernel, symbol_of(request.kernel, key), target))
    with Pool(setups, workers=workers, folder=folder) as pool:
        finished = list(pool.run(jobs))
    assert sorted(one.job.number for one in finished) == list(range(len(jobs))), "every job ends exactly once"
    return {(one.job.kernel.partition(":")[2], one.job.target.arch): one for one in finished}


def compile_plainly(folder: Path, symbol: str, host: str) -> bytes:
    """Object of ``Copy`` for an H200 without the builder; ``host``: "pinned" (with its changes to it) or "as it is"."""
    output = folder / "plain.o"
    subprocess.run([sys.executable, "-c", _PLAIN, str(output), symbol, host], check=True, cwd=Path.cwd())
    return output.read_bytes()
