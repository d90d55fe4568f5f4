"""One measurement of ``cold_start.py`` in a process of its own, which first brings up torch and CUDA.

    python bench/cold_start_child.py WAY JSON

``JSON`` holds the fields of ``Task``. Prints a JSON object: seconds by step, and ``total`` for what is compared.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from floor import floor


@dataclass(frozen=True)
class Task:
    """What to load. ``cache`` holds the pack (``pack``) or is empty; ``has_gpu`` False only tries the script out."""

    lockfile: str
    digest: str
    symbols: list[str]
    pack: str
    cache: str
    store: str
    blob_url: str
    objects: str
    keys: list[dict[str, Any]]
    has_gpu: bool


def main() -> None:
    """Run the way that ``sys.argv`` names."""
    task = Task(**json.loads(Path(sys.argv[2]).read_text()))
    _bring_up(task)
    result = WAYS[sys.argv[1]](task)
    result.setdefault("total", sum(result.values()))
    print(json.dumps(result))


def _bring_up(task: Task) -> None:
    import torch
    import tvm_ffi  # noqa: F401

    if task.has_gpu:
        torch.zeros(1, device="cuda")


def _floor(task: Task) -> dict[str, float]:
    seconds, functions = floor(Path(task.lockfile), Path(task.pack), task.symbols)
    assert len(functions) == len(task.symbols)
    return seconds


def _warm(task: Task) -> dict[str, float]:
    return _load(task, None)


def _cold(task: Task) -> dict[str, float]:
    from kernelforge.digest import Digest
    from kernelforge.store.layout import lock_name
    from kernelforge.store.locate import open_store

    store = open_store(task.store)
    # A pod that has fetched its lockfile has imported and made the client.
    store.get(lock_name(Digest.parse(task.digest)), limit_bytes=1 << 26)
    return _load(task, store)


def _cold_first_request(task: Task) -> dict[str, float]:
    return _load(task, task.store)


def _load(task: Task, store: Any) -> dict[str, float]:
    from kernelforge import PinnedDigest, load

    options: dict[str, Any] = {} if task.has_gpu else {"device": _stand_in(task)}
    started = time.perf_counter()
    kernels = load(task.lockfile, trust=PinnedDigest(task.digest), cache=task.cache, store=store, **options)
    total = time.perf_counter() - started
    assert len(kernels) == len(task.symbols)
    assert kernels.stats().pack_source == ("cache" if store is None else "store")
    return {**kernels.stats().seconds, "total": total}


def _stand_in(task: Task) -> Any:
    from kernelforge.loader.found_device import FoundDevice
    from kernelforge.lockfile import Lockfile

    facts = Lockfile.parse(Path(task.lockfile).read_bytes()).devices["h200-sxm"].facts
    told = ("num_sms", "shared_memory_per_block_bytes", "shared_memory_per_sm_bytes", "registers_per_sm", "l2_bytes")
    values: dict[str, Any] = {name: facts[name].value for name in told}
    return FoundDevice(0, "NVIDIA H200", (9, 0), (13, 0), memory_bytes=0, **values)


def _one_get(task: Task) -> dict[str, float]:
    url = urlsplit(task.blob_url)
    connection = http.client.HTTPConnection(url.netloc)
    connection.connect()
    started = time.perf_counter()
    connection.request("GET", url.path)
    connection.getresponse().read()
    return {"get": time.perf_counter() - started}


def _object_files(task: Task) -> dict[str, float]:
    started = time.perf_counter()
    from cutlass import cute

    imported = time.perf_counter()
    functions = [
        getattr(cute.runtime.load_module(f"{task.objects}/{symbol}.o", enable_tvm_ffi=True), symbol)
        for symbol in task.symbols
    ]
    assert len(functions) == len(task.symbols)
    return {"import": imported - started, "open": time.perf_counter() - imported}


def _compile(task: Task) -> dict[str, float]:
    started = time.perf_counter()
    from cutlass import cute

    imported = time.perf_counter()
    from kernelforge.kernels.rms_norm import RmsNorm

    kernel = RmsNorm()
    for fields in task.keys:
        key = RmsNorm.CompileKey(**fields)
        stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
        cute.compile(kernel.kernel(key), *kernel.warmup_inputs(key), stream, options="--enable-tvm-ffi")
    return {"import": imported - started, "compile": time.perf_counter() - imported}


def _imports(_task: Task) -> dict[str, float]:
    started = time.perf_counter()
    import kernelforge

    package = time.perf_counter()
    import kernelforge.loader.load

    loader = time.perf_counter()
    assert kernelforge.loader.load.__name__
    return {"kernelforge": package - started, "loader": loader - package}


def _calls(task: Task) -> dict[str, float]:
    from host_calls import host_calls

    return host_calls(task.lockfile, task.digest, task.cache, task.pack)


WAYS: dict[str, Callable[[Task], dict[str, float]]] = {
    "compile": _compile,
    "object files": _object_files,
    "cold, first request": _cold_first_request,
    "cold": _cold,
    "warm": _warm,
    "floor": _floor,
    "one GET": _one_get,
    "imports": _imports,
    "calls": _calls,
}


if __name__ == "__main__":
    main()
