"""Which keys the device code tests compile, and what came out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelforge.builder.compiler import ARCH_VARIABLE
from kernelforge.contract import Choices, JitKernel
from kernelforge.device import DeviceProfile, Fact
from kernelforge.kernels.qk_norm import QkNorm
from kernelforge.kernels.rms_norm import RmsNorm

H200 = DeviceProfile("h200-sxm", "sm_90a", {"num_sms": Fact(132, "test")})
B200 = DeviceProfile("b200", "sm_100a", {"num_sms": Fact(148, "test")})
DEVICES = (H200, B200)

_TOKENS = Choices(tuple(1 << i for i in range(14)))
# Each dtype with one weight offset: both are constants of the same three lines of device code.
_DTYPES = (("bfloat16", 0.0), ("float16", 1.0))
# Every kind of row: less than a warp's vectors left over (1032), a tail (2880), none (1024, 4096), the longest.
_HIDDEN = Choices((1024, 1032, 2880, 4096, 16384))


@dataclass(frozen=True)
class BuiltKey:
    """One key and the folder where ``<symbol>.o``, ``.cubin`` and ``.ptx`` will be or are."""

    symbol: str
    device: DeviceProfile
    kernel: JitKernel[Any]
    key: Any
    folder: Path

    def read(self, suffix: str) -> bytes:
        """What the compiler made: ``o``, ``cubin`` or ``ptx``."""
        return (self.folder / f"{self.symbol}.{suffix}").read_bytes()


def wanted_keys(device: DeviceProfile, folder: Path) -> list[BuiltKey]:
    """All keys of ``QkNorm`` that 40 heads reach, and those of ``RmsNorm`` for a few row lengths."""
    qk_norm, rms_norm = QkNorm(device=device), RmsNorm(device=device)
    built: list[BuiltKey] = []
    for dtype, weight_offset in _DTYPES:
        shared = {"tokens": _TOKENS, "dtype": dtype, "eps": 1e-6, "weight_offset": weight_offset}
        head_dims = Choices((64, 128, 256))
        heads = qk_norm.expand(qk_norm.dispatch)(q_heads=32, kv_heads=8, head_dim=head_dims, **shared)
        rows = rms_norm.expand(rms_norm.dispatch)(hidden=_HIDDEN, has_residual=Choices((False, True)), **shared)
        for kernel, key in [(qk_norm, key) for key in heads] + [(rms_norm, key) for key in rows]:
            built.append(BuiltKey(f"{device.arch}_{len(built)}", device, kernel, key, folder))
    return built


def compile_all(built: Sequence[BuiltKey]) -> None:
    """Compile the keys in one process per architecture, side by side."""
    processes = []
    for device in DEVICES:
        keys = [each for each in built if each.device is device]
        folder = keys[0].folder
        jobs, log = folder / f"{device.arch}.json", folder / f"{device.arch}.log"
        jobs.write_text(json.dumps([[each.symbol, type(each.kernel).__name__, asdict(each.key)] for each in keys]))
        environment = {
            **os.environ,
            ARCH_VARIABLE: device.arch,
            "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path]),
        }
        command = [sys.executable, "-m", "tests.kernels.compile_keys", device.arch, str(jobs)]
        with log.open("wb") as output:
            # The compiler leaves files in its working folder.
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=folder)
        processes.append((process, log))
    failed = [log for process, log in processes if process.wait() != 0]
    assert not failed, failed[0].read_text()[-4000:]
