"""What the builder's tests share: test kernels to jobs, and a pool run to its end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kernelforge.builder.job import CompileJob, Finished, Setup
from kernelforge.builder.pool import Pool
from kernelforge.contract import Choices, symbol_of
from kernelforge.device import DeviceProfile
from kernelforge.keys.enumerate import enumerate_keys
from kernelforge.request import KernelRequest
from kernelforge.target import Target


def requests_of(*class_names: str, widths: tuple[int, ...] = (32,)) -> tuple[KernelRequest, ...]:
    """Requests for classes of `tests.kernel_family`."""
    return tuple(KernelRequest(f"tests.kernel_family:{name}", {"width": Choices(widths)}) for name in class_names)


def compile_all(
    requests: Sequence[KernelRequest],
    profiles: Sequence[DeviceProfile],
    folder: Path,
    *,
    limit_seconds: float = 120.0,
    workers: int = 2,
    cuda: str = "cu13",
) -> dict[tuple[str, str], Finished]:
    """Compile every key of the requests for every profile; results by (class name, architecture)."""
    jobs, setups = [], []
    for profile in profiles:
        target = Target(profile.arch, cuda=cuda)
        setups.append(Setup(target, tuple(sys.path), tuple(requests), (profile,), limit_seconds))
        for request in requests:
            for key in enumerate_keys(request, profile).keys:
                jobs.append(CompileJob(len(jobs), request.kernel, symbol_of(request.kernel, key), target))
    with Pool(setups, workers=workers, folder=folder) as pool:
        finished = list(pool.run(jobs))
    assert sorted(one.job.number for one in finished) == list(range(len(jobs))), "every job ends exactly once"
    return {(one.job.kernel.partition(":")[2], one.job.target.arch): one for one in finished}
