"""What ``preload`` costs and saves on a real GPU, and that it leaves the process as it was.

    python bench/preload_on_gpu.py registry/releases/qwen3-8b.lock.json --store file:.kernelforge/store [--out FOLDER]

Each row is a fresh process: seconds of the load and of its preload step, then of the first, second and third launch of
every kernel (host time until the device is idle again). Noted before and after the load: the current device, whether
there is a current context, which devices have a live primary context. All results are compared with the float32
reference. With two GPUs of one kind also: preload on both and launch on both, preload on one and launch on both, and
preload on device 1 alone. Prints JSON and exits with 1 if a check fails. Needs torch, apache-tvm-ffi and zstandard, no
compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from spine_on_gpu import cases, error_over_bound, machine, ranges_of_keys

import kernelforge
from kernelforge.kernels.qk_norm import QkNorm

ROUNDS = 3
TOKENS = 8
# name: (device of the load, preload=, devices to launch on, whether CUDA is up on device 0 before the load)
ONE_GPU: dict[str, tuple[int, Any, tuple[int, ...], bool]] = {
    "not preloaded": (0, False, (0,), True),
    "preload=True": (0, True, (0,), True),
    "preload=True, CUDA not up": (0, True, (0,), False),
}
TWO_GPUS: dict[str, tuple[int, Any, tuple[int, ...], bool]] = {
    "two: not preloaded": (0, False, (0, 1), True),
    "two: preload=[0, 1]": (0, [0, 1], (0, 1), True),
    "two: preload=[0], launched on both": (0, [0], (0, 1), True),
    "two: preload=[1], device 0 current": (1, [1], (1,), True),
    "two: preload=[1], CUDA not up": (1, [1], (1,), False),
}


def main() -> int:
    arguments = parse_arguments()
    if arguments.row:
        print(json.dumps(run_row(arguments)))
        return 0
    rows = {**ONE_GPU, **(TWO_GPUS if torch.cuda.device_count() > 1 else {})}
    results: dict[str, Any] = {"machine": machine(), "rows": {name: medians(arguments, name) for name in rows}}
    results["failures"] = [f"{name}: {failure}" for name, row in results["rows"].items() for failure in row["failures"]]
    print(json.dumps(results, indent=1))
    if arguments.out:
        (arguments.out / "preload_on_gpu.json").write_text(json.dumps(results, indent=1))
    return 1 if results["failures"] else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockfile", type=Path)
    parser.add_argument("--store", required=True)
    parser.add_argument("--cache", default="/tmp/kernelforge-bench-cache")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    return parser.parse_args()


def medians(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """Fresh processes for one row: medians of the times, the notes of the last one, the failures of all."""
    runs = []
    for _ in range(ROUNDS):
        command = [sys.executable, __file__, str(arguments.lockfile), "--store", arguments.store]
        done = subprocess.run(
            [*command, "--cache", arguments.cache, "--row", name], capture_output=True, text=True, check=False
        )
        if done.returncode:
            return {"failures": [f"ended with {done.returncode}: {done.stderr.strip()[-600:]}"]}
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    times = {part: round(statistics.median(run["ms"][part] for run in runs), 3) for part in runs[0]["ms"]}
    failures = sorted({failure for run in runs for failure in run["failures"]})
    return {"ms": times, "before": runs[-1]["before"], "after": runs[-1]["after"], "failures": failures}


def run_row(arguments: argparse.Namespace) -> dict[str, Any]:
    device, preload, launched_on, is_cuda_up = {**ONE_GPU, **TWO_GPUS}[arguments.row]
    if is_cuda_up:
        torch.zeros(1, device="cuda:0")
    before = condition()
    started = time.perf_counter()
    kernels = kernelforge.load(
        arguments.lockfile,
        trust=kernelforge.LocalFile(),
        store=arguments.store,
        cache=arguments.cache,
        device=device,
        preload=preload,
    )
    milliseconds = {"load": (time.perf_counter() - started) * 1e3}
    milliseconds["of it preload"] = kernels.stats().seconds.get("preload", 0.0) * 1e3
    after = condition()
    failures = changes(before, after)
    for ordinal in launched_on:
        failures += [f"device {ordinal}: {wrong}" for wrong in launches(kernels, ordinal, milliseconds)]
    return {"ms": milliseconds, "before": before, "after": after, "failures": failures}


def condition() -> dict[str, Any]:
    """What a load could change, asked of the driver, which makes no context for the question."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuInit(0)
    context, runtime_device = ctypes.c_void_p(), ctypes.c_int()
    driver.cuCtxGetCurrent(ctypes.byref(context))
    # The copy that torch has opened already.
    runtime = ctypes.CDLL(f"libcudart.so.{str(torch.version.cuda).partition('.')[0]}")
    runtime.cudaGetDevice(ctypes.byref(runtime_device))
    live = []
    for ordinal in range(torch.cuda.device_count()):
        handle, flags, is_active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
        driver.cuDeviceGet(ctypes.byref(handle), ordinal)
        driver.cuDevicePrimaryCtxGetState(handle, ctypes.byref(flags), ctypes.byref(is_active))
        live.append(bool(is_active.value))
    return {"current device": runtime_device.value, "current context": bool(context.value), "live contexts": live}


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Case C11: the current device and the fact that there is a current context are the caller's."""
    names = ("current device", "current context")
    return [f"{name}: {before[name]} before, {after[name]} after" for name in names if before[name] != after[name]]


def launches(kernels: Any, ordinal: int, milliseconds: dict[str, float]) -> list[str]:
    """Three launches of every key on one device, timed; then one more whose results are compared."""
    prepared = prepare(kernels, ordinal)
    torch.cuda.synchronize(ordinal)
    # Only now: making tensors on a device moves torch there where no other device has a context.
    current = condition()["current device"]
    for which in ("first", "second", "third"):
        started = time.perf_counter()
        for launch, _ in prepared:
            launch()
        torch.cuda.synchronize(ordinal)
        milliseconds[f"{which} launch of all {len(prepared)}, device {ordinal}"] = (time.perf_counter() - started) * 1e3
    moved = ["the launches changed the current device"] if condition()["current device"] != current else []
    return moved + [wrong for _, compare in prepared if (wrong := compare())]


def prepare(kernels: Any, ordinal: int) -> list[tuple[Callable[[], Any], Callable[[], str]]]:
    """For every key of the lockfile: a launch on this device, and one whose results are held against the reference."""
    prepared = []
    for kernel_class, facts in cases():
        kernel: Any = kernel_class(kernels)
        for key in ranges_of_keys(kernel, **facts):
            generator = torch.Generator(f"cuda:{ordinal}").manual_seed(TOKENS)
            inputs = kernel.inputs(key, generator, tokens=TOKENS, device=f"cuda:{ordinal}")
            prepared.append(one_key(kernel, kernels[key], key, inputs))
    assert len(prepared) == len(kernels), f"{len(prepared)} keys are launched, the lockfile has {len(kernels)}"
    return prepared


def one_key(
    kernel: Any, function: Callable[..., Any], key: Any, inputs: dict[str, Any]
) -> tuple[Callable[[], Any], Callable[[], str]]:
    expected = kernel.reference(**inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    changed: tuple[Any, ...]
    written: tuple[Any, ...]
    arguments: tuple[Any, ...]
    if isinstance(kernel, QkNorm):
        changed = written = (inputs["q"], inputs["k"])
        arguments = (inputs["q"], inputs["k"], inputs["q_weight"], inputs["k_weight"])
    else:
        out = torch.full_like(inputs["x"], float("nan"))
        residual = inputs.get("residual")
        changed = () if residual is None else (residual,)
        written = (out, *changed)
        arguments = (inputs["x"], residual, inputs["weight"], out)
    originals = [tensor.clone() for tensor in changed]

    def launch() -> None:
        function(*arguments)

    def compare() -> str:
        """From the original inputs once more: what was written in place three times over is no longer the answer."""
        for tensor, original in zip(changed, originals, strict=True):
            tensor.copy_(original)
        launch()
        worst = max(error_over_bound(found, right) for found, right in zip(written, expected, strict=True))
        return "" if worst <= 1.0 else f"{type(kernel).__name__} {key}: error {worst:.3g} times its bound"

    return launch, compare


if __name__ == "__main__":
    sys.exit(main())
