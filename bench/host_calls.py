"""Microseconds of host time per call: tvm-ffi's own function, the one that a caller holds, and a kernel class.

All three launch the same kernel with the same tensors, in blocks that take turns; a block is small enough that the
device's queue never fills, so that the host waits for nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

_BLOCKS = 200
_CALLS_PER_BLOCK = 100


def host_calls(lockfile: str, digest: str, cache: str, pack: str) -> dict[str, float]:
    """Seconds per call by kind of call, medians over blocks; needs a GPU."""
    import torch
    import tvm_ffi

    from kernelforge import PinnedDigest, load
    from kernelforge.contract import kernel_name, symbol_of
    from kernelforge.kernels.rms_norm import RmsNorm

    kernels = load(lockfile, trust=PinnedDigest(digest), cache=cache)
    started = time.perf_counter()
    norm = RmsNorm(kernels)
    bound = time.perf_counter() - started
    x = torch.randn(16, 1024, device="cuda").bfloat16()
    weight, out = torch.ones(1024, device="cuda").bfloat16(), torch.empty_like(x)
    key = norm.dispatch(tokens=16, hidden=1024, dtype="bfloat16", has_residual=False, eps=1e-6, weight_offset=0.0)
    raw, held = tvm_ffi.load_module(pack).get_function(symbol_of(kernel_name(RmsNorm), key)), kernels[key]
    calls: dict[str, Callable[[], Any]] = {
        "raw": lambda: raw(x, None, weight, out),
        "held": lambda: held(x, None, weight, out),
        "class": lambda: norm(x=x, weight=weight, out=out),
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_BLOCKS):
        for name, call in calls.items():
            found[name].append(_block(call))
            torch.cuda.synchronize()
    return {"bind": bound, **{name: statistics.median(times[10:]) for name, times in found.items()}, "total": 0.0}


def _block(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    for _ in range(_CALLS_PER_BLOCK):
        call()
    return (time.perf_counter() - started) / _CALLS_PER_BLOCK
