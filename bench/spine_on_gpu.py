"""A release that was built elsewhere, checked on the GPU it was built for, on a machine with no compiler.

    python bench/spine_on_gpu.py registry/releases/qwen3-8b.lock.json --store file:.kernelforge/store [--out FOLDER]

Every key that the lockfile has for this device runs on fresh random inputs, into poisoned outputs, for token counts at
and around the edges of the ranges that dispatch gives it and for some at random; results are compared with the float32
reference. Then: time from process start to all kernels callable, in parts (fresh processes, median), typed refusals of
wrong calls, and times against a copy of the same bytes. Needs torch, apache-tvm-ffi and zstandard. Seeds come from the
system's entropy and are printed.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import random
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import kernelforge
from kernelforge.contract import JitKernel
from kernelforge.errors import KernelForgeError
from kernelforge.kernels.qk_norm import QkNorm
from kernelforge.kernels.rms_norm import RmsNorm

MAX_TOKENS = 8192
DISPATCH_FACTS: dict[type[JitKernel[Any]], dict[str, Any]] = {
    QkNorm: {"q_heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16", "eps": 1e-6, "weight_offset": 0.0},
    RmsNorm: {"hidden": 4096, "dtype": "bfloat16", "eps": 1e-6, "weight_offset": 0.0},
}
# One rounding to the output type, which has 8 or 11 significant bits: relative error 2^-8 or 2^-11; and float32
# arithmetic's own error, which 2^-16 bounds with room (reductions of at most 16384 terms in a tree).
ROUNDING = {torch.bfloat16: 2.0**-8 + 2.0**-16, torch.float16: 2.0**-11 + 2.0**-16}


def main() -> int:
    arguments = parse_arguments()
    if arguments.time_start:
        return time_start(arguments)
    results: dict[str, Any] = {"machine": machine(), "seed": secrets.randbits(63)}
    kernels = load(arguments)
    results["load"] = {"kernels": len(kernels), "seconds": dict(kernels.stats().seconds)}
    results["correct"] = check_all(kernels, results["seed"])
    results["refusals"] = check_refusals(kernels)
    results["start"] = start_times(arguments)
    results["speed"] = speeds(kernels)
    results["failures"] = [row for row in results["correct"] if not row["ok"]]
    print(json.dumps(summary(results), indent=1))
    if arguments.out:
        (arguments.out / "spine_on_gpu.json").write_text(json.dumps(results, indent=1))
    return 1 if results["failures"] or not all(row["ok"] for row in results["refusals"]) else 0


def load(arguments: argparse.Namespace) -> Any:
    return kernelforge.load(
        arguments.lockfile, trust=kernelforge.LocalFile(), store=arguments.store, cache=arguments.cache
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockfile", type=Path)
    parser.add_argument("--store", required=True)
    parser.add_argument("--cache", default="/tmp/kernelforge-bench-cache")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--time-start", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


def machine() -> dict[str, str]:
    import tvm_ffi

    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "tvm_ffi": tvm_ffi.__version__,
        "python": sys.version.split()[0],
        "compiler": "present" if importlib.util.find_spec("cutlass") else "not installed",
    }


def ranges_of_keys(kernel: JitKernel[Any], **facts: Any) -> dict[Any, list[tuple[int, int]]]:
    """Compile key -> the ranges of token counts (first, last) that dispatch gives it."""
    ranges: dict[Any, list[tuple[int, int]]] = {}
    for tokens in range(1, MAX_TOKENS + 1):
        runs = ranges.setdefault(kernel.dispatch(tokens=tokens, **facts), [])
        if runs and runs[-1][1] == tokens - 1:
            runs[-1] = (runs[-1][0], tokens)
        else:
            runs.append((tokens, tokens))
    return ranges


def token_counts(runs: list[tuple[int, int]], rng: random.Random) -> list[int]:
    """At, just inside and just outside the edges of the key's ranges, small ones, and three at random."""
    counts = {1, 2, 3, 7, 33}
    for first, last in runs:
        counts |= {first - 1, first, first + 1, last - 1, last, last + 1, *(rng.randint(first, last) for _ in range(3))}
    return sorted(count for count in counts if 1 <= count <= MAX_TOKENS)


def cases() -> Iterator[tuple[type[JitKernel[Any]], dict[str, Any]]]:
    yield QkNorm, DISPATCH_FACTS[QkNorm]
    for has_residual in (False, True):
        yield RmsNorm, {**DISPATCH_FACTS[RmsNorm], "has_residual": has_residual}


def check_all(kernels: Any, seed: int) -> list[dict[str, Any]]:
    """One row per key; every key of the lockfile must have been reached."""
    rng = random.Random(seed)
    rows = []
    for kernel_class, facts in cases():
        kernel = kernel_class(kernels)
        for key, runs in ranges_of_keys(kernel, **facts).items():
            counts = token_counts(runs, rng)
            errors = [check_one(kernel, kernels[key], key, tokens, rng) for tokens in counts]
            worst = max(errors)
            rows.append(
                {
                    "kernel": kernel_class.__name__,
                    "key": {name: str(value) for name, value in vars(key).items()},
                    "tokens": counts,
                    "worst_error_over_bound": worst,
                    "ok": worst <= 1.0,
                }
            )
    assert len(rows) == len(kernels), f"{len(rows)} keys were checked, the lockfile has {len(kernels)}"
    return rows


def check_one(kernel: Any, function: Callable[..., Any], key: Any, tokens: int, rng: random.Random) -> float:
    """Largest error over its bound for one launch of exactly this key, whatever dispatch would pick."""
    generator = torch.Generator("cuda").manual_seed(rng.randrange(1 << 62))
    inputs = kernel.inputs(key, generator, tokens=tokens, device="cuda")
    expected = kernel.reference(**inputs)
    if isinstance(kernel, QkNorm):
        qkv, heads = inputs["q"]._base, inputs["q"].shape[1] + inputs["k"].shape[1]
        v = qkv[:, heads:].clone()
        function(inputs["q"], inputs["k"], inputs["q_weight"], inputs["k_weight"])
        assert torch.equal(qkv[:, heads:], v), "wrote beyond q and k"
        outputs = [inputs["q"], inputs["k"]]
    else:
        out = torch.full((tokens + 2, key.hidden), float("nan"), dtype=inputs["x"].dtype, device="cuda")
        x = inputs["x"].clone()
        function(inputs["x"], inputs.get("residual"), inputs["weight"], out[1:-1])
        assert out[[0, -1]].isnan().all(), "wrote beyond out"
        assert torch.equal(inputs["x"], x), "changed x"
        outputs = [out[1:-1], inputs["residual"]] if key.has_residual else [out[1:-1]]
    expected = expected if isinstance(expected, tuple) else (expected,)
    return max(error_over_bound(found, right) for found, right in zip(outputs, expected, strict=True))


def error_over_bound(found: torch.Tensor, right: torch.Tensor) -> float:
    """max |found - right| / (rounding * |right| + smallest normal); NaN counts as infinitely wrong."""
    bound = ROUNDING[found.dtype] * right.float().abs() + torch.finfo(found.dtype).smallest_normal
    ratio = ((found.float() - right.float()).abs() / bound).max().item()
    return ratio if ratio == ratio else float("inf")


def check_refusals(kernels: Any) -> list[dict[str, Any]]:
    """Calls that no key covers must raise before anything is launched."""
    norm = RmsNorm(kernels)
    x = torch.randn(8, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.ones(4096, device="cuda", dtype=torch.bfloat16)
    calls: dict[str, Callable[[], Any]] = {
        "another dtype": lambda: norm(x=x.half(), weight=weight.half()),
        "another hidden size": lambda: norm(x=x[:, :2048].contiguous(), weight=weight[:2048].contiguous()),
        "another eps": lambda: norm(x=x, weight=weight, eps=1e-5),
        "weight of another dtype": lambda: norm(x=x, weight=weight.float()),
        "weight too short": lambda: norm(x=x, weight=weight[:2048].contiguous()),
        "columns apart": lambda: norm(x=torch.randn(4096, 8, device="cuda").bfloat16().t(), weight=weight),
        "misaligned": lambda: norm(x=x.new_ones(8 * 4096 + 1)[1:].view(8, 4096), weight=weight),
        "tensor on the CPU": lambda: norm(x=x.cpu(), weight=weight.cpu(), out=torch.empty_like(x)),
    }
    rows = []
    for name, call in calls.items():
        try:
            call()
            row = {"call": name, "ok": False, "error": "was accepted"}
        except KernelForgeError as error:
            row = {"call": name, "ok": True, "error": f"{type(error).__name__}: {error.problem}"[:160]}
        rows.append(row)
    torch.cuda.synchronize()
    return rows


def start_times(arguments: argparse.Namespace) -> dict[str, float]:
    """Milliseconds from process start to all kernels callable and run, by part; medians over five fresh processes."""
    runs = []
    for _ in range(5):
        command = [sys.executable, __file__, *map(str, [arguments.lockfile, "--store", arguments.store])]
        command += ["--cache", arguments.cache, "--time-start", repr(time.time())]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout))
    return {part: round(statistics.median(run[part] for run in runs), 3) for part in runs[0]}


def time_start(arguments: argparse.Namespace) -> int:
    parts = {"python and imports (torch, kernelforge)": time.time() - arguments.time_start}

    def timed(part: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = work()
        parts[part] = time.perf_counter() - started
        return result

    timed("CUDA context", lambda: torch.zeros(1, device="cuda"))
    timed("import tvm_ffi", lambda: __import__("tvm_ffi"))
    kernels = timed("kernelforge.load", lambda: load(arguments))
    for step, seconds in kernels.stats().seconds.items():
        parts[f"  load: {step}"] = seconds
    classes = timed("bind both classes", lambda: (QkNorm(kernels), RmsNorm(kernels)))
    by_class = {type(kernel): kernel for kernel in classes}
    keys = [key for kernel_class, facts in cases() for key in ranges_of_keys(by_class[kernel_class], **facts)]
    timed("look up all keys", lambda: [kernels[key] for key in keys])
    parts["process start to all kernels callable"] = time.time() - arguments.time_start
    x = torch.randn(8, 4096, device="cuda", dtype=torch.bfloat16)
    timed("first call of one kernel", lambda: (classes[1](x=x, weight=x[0].clone()), torch.cuda.synchronize()))
    print(json.dumps({part: seconds * 1e3 for part, seconds in parts.items()}))
    return 0


def speeds(kernels: Any) -> list[dict[str, Any]]:
    """Microseconds of graph replays against a copy of as many bytes, interleaved, over buffers larger than the L2."""
    rows = []
    for tokens in (1, 16, 64, 256, 1024, 4096, 8192):
        for kernel_class, facts in cases():
            kernel: Any = kernel_class(kernels)
            key = kernel.dispatch(tokens=tokens, **facts)
            shapes = {"q_heads": 32, "kv_heads": 8} if kernel_class is QkNorm else {}
            moved = kernel.cost(key, tokens=tokens, **shapes)["bytes"]
            sets = max(2, min(64, (256 << 20) // moved))
            generator = torch.Generator("cuda").manual_seed(tokens)
            inputs = [kernel.inputs(key, generator, tokens=tokens, device="cuda") for _ in range(sets)]
            half = -(-moved // 2 // 512) * 512
            copies = [torch.empty(2, half // 4, dtype=torch.int32, device="cuda") for _ in range(sets)]
            ours = captured([functools.partial(kernel, **one) for one in inputs])
            copy = captured([functools.partial(target.copy_, source) for target, source in copies])
            our_us, copy_us = interleaved(ours, copy, sets)
            rows.append(
                {
                    "kernel": kernel_class.__name__ + (" + residual" if facts.get("has_residual") else ""),
                    "tokens": tokens,
                    "ours_us": round(our_us, 2),
                    "copy_us": round(copy_us, 2),
                    "copy_over_ours": round(copy_us / our_us, 3),
                    "ours_GB_per_s": round(moved / our_us / 1e3, 1),
                }
            )
    return rows


def captured(calls: list[Callable[[], Any]]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls[:2]:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def interleaved(first: torch.cuda.CUDAGraph, second: torch.cuda.CUDAGraph, calls: int) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(25):
        for graph, found in zip((first, second), times, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            found.append(start.elapsed_time(end) * 1e3 / calls)
    return statistics.median(times[0][3:]), statistics.median(times[1][3:])


def summary(results: dict[str, Any]) -> dict[str, Any]:
    return {
        "machine": results["machine"],
        "keys checked": len(results["correct"]),
        "launches compared": sum(len(row["tokens"]) for row in results["correct"]),
        "failures": results["failures"],
        "worst error over bound": max(row["worst_error_over_bound"] for row in results["correct"]),
        "refusals": results["refusals"],
        "start_ms": results["start"],
        "speed": results["speed"],
    }


if __name__ == "__main__":
    sys.exit(main())
