"""From a process with torch and CUDA up to N callable kernels, in every way that there is, in one run.

    python bench/cold_start.py build --out FOLDER                       on a machine with the compiler, no GPU
    python bench/cold_start.py run FOLDER --out FOLDER                  on the GPU machine
    python bench/cold_start.py plot results.json -o bench/cold_start.png

``run`` measures: compiling in the pod and opening object files one by one (where the compiler can be imported), our
loader with an empty cache and an object store one round trip away, our loader with a warm cache, and the floor
(``floor.py``). Each repetition is a fresh process, and the ways take turns. The lockfile is pinned by its digest;
what a signature costs more is in signed_lockfile.py. Host times of calls and the costs of imports come beside.
Needs torch, apache-tvm-ffi and zstandard; botocore for the store; for ``plot`` matplotlib.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cold_start_report import plot, summary, table

COUNTS = (60, 300, 1000)
_COMPARED = ("compile", "object files", "cold, first request", "cold", "warm", "floor", "one GET")
_NEEDS = {"compile": "cutlass", "object files": "cutlass", "cold, first request": "botocore", "cold": "botocore"}
# Ways that take seconds: repeated less often than those that take milliseconds.
_SLOW = {"compile": 2, "object files": 3}
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1",
}


def main() -> int:
    arguments = parse_arguments()
    if arguments.command == "build":
        from cold_start_build import build

        build(arguments.out, arguments.counts, jobs=arguments.jobs)
    elif arguments.command == "plot":
        plot(json.loads(arguments.results.read_text()), arguments.o)
    else:
        results = run(arguments)
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "cold_start.json").write_text(json.dumps(results, indent=1))
        print(table(results))
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("--out", type=Path, required=True)
    build.add_argument("--jobs", type=int, default=os.cpu_count())
    run = commands.add_parser("run")
    run.add_argument("folder", type=Path)
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--repetitions", type=int, default=9)
    run.add_argument("--round-trip-ms", type=float, default=20.0)
    run.add_argument("--compile-up-to", type=int, default=300, help="do not compile or open more objects than this")
    run.add_argument("--without-gpu", action="store_true", help="to try the script out: no CUDA, no calls")
    for command in (build, run):
        command.add_argument("--counts", type=int, nargs="+", choices=COUNTS, default=COUNTS)
    drawn = commands.add_parser("plot")
    drawn.add_argument("results", type=Path)
    drawn.add_argument("-o", type=Path, required=True)
    return parser.parse_args()


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every way, for every number of kernels that the folder has."""
    random.seed(0)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work, served(arguments.folder, arguments.round_trip_ms) as endpoint:
        for count in arguments.counts:
            task = prepare(arguments, count, Path(work), endpoint)
            ways = [way for way in _COMPARED if is_possible(way, count, arguments)]
            found[str(count)] = repeated(ways, task, arguments.repetitions)
            print(f"{count} kernels: measured", file=sys.stderr)
        beside = ["imports"] if arguments.without_gpu else ["imports", "calls"]
        extra = repeated(beside, task, min(5, arguments.repetitions))
    return {
        "machine": machine(arguments),
        "round_trip_ms": arguments.round_trip_ms,
        "kernels": {count: summary(measured) for count, measured in found.items()},
        "beside": {way: summary({way: rows})[way] for way, rows in extra.items()},
        "runs": {**found, "beside": extra},
    }


def prepare(arguments: argparse.Namespace, count: int, work: Path, endpoint: str) -> dict[str, Any]:
    """The task for the measuring processes; afterwards the pack lies in the warm cache."""
    from kernelforge.digest import Digest
    from kernelforge.loader.cache import PackCache
    from kernelforge.lockfile import Lockfile
    from kernelforge.store.blobs import get_blob
    from kernelforge.store.file import FileStore
    from kernelforge.store.layout import blob_name

    path = arguments.folder / f"{count}.lock.json"
    lock = Lockfile.parse(path.read_bytes())
    blob = lock.packs["h200-sxm"].blob
    content = get_blob(FileStore(arguments.folder / "store"), blob)
    pack = PackCache(work / "warm").write(blob.content_digest, lambda file: file.write(content))
    return {
        "lockfile": str(path),
        "digest": str(Digest.of(path.read_bytes())),
        "symbols": [entry.symbol for entry in lock.entries],
        "pack": str(pack),
        "cache": str(work / "warm"),
        "store": f"s3://bench?endpoint={endpoint}&region=us-east-1",
        "blob_url": f"{endpoint}/bench/{blob_name(blob.stored_digest)}",
        "objects": str(arguments.folder / "objects" / str(count)),
        "keys": [dict(entry.compile_key) for entry in lock.entries],
        "has_gpu": not arguments.without_gpu,
    }


def is_possible(way: str, count: int, arguments: argparse.Namespace) -> bool:
    """Whether this machine has what the way needs, and the way is not too slow for so many kernels."""
    needed = _NEEDS.get(way)
    return (needed is None or importlib.util.find_spec(needed) is not None) and (
        way not in _SLOW or count <= arguments.compile_up_to
    )


def repeated(ways: list[str], task: dict[str, Any], repetitions: int) -> dict[str, list[dict[str, float]]]:
    """Fresh processes, all ways once per round, in an order that changes from round to round."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for number in range(repetitions):
        for way in random.sample(ways, len(ways)):
            if number < _SLOW.get(way, repetitions):
                found[way].append(measured(way, task))
    return found


def measured(way: str, task: dict[str, Any]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        if way.startswith("cold"):
            task = {**task, "cache": f"{folder}/cache"}
        written = Path(folder, "task.json")
        written.write_text(json.dumps(task))  # 1,000 keys are too long for an argument
        command = [sys.executable, str(Path(__file__).with_name("cold_start_child.py")), way, str(written)]
        # The compiler leaves files in its working folder.
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **_CREDENTIALS}, cwd=folder, check=False
        )
    if done.returncode:
        raise SystemExit(f"{way}: {done.stderr[-2000:]}")
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


@contextmanager
def served(folder: Path, round_trip_ms: float) -> Iterator[str]:
    """The folder's store over HTTP; gives the endpoint."""
    script = Path(__file__).with_name("object_server.py")
    command = [sys.executable, str(script), str(folder / "store"), str(round_trip_ms / 1e3)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()


def machine(arguments: argparse.Namespace) -> dict[str, str]:
    import torch
    import tvm_ffi

    return {
        "gpu": "none" if arguments.without_gpu else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "tvm_ffi": tvm_ffi.__version__,
        "python": sys.version.split()[0],
        "compiler": "present" if importlib.util.find_spec("cutlass") else "not installed",
        "cpus": str(os.cpu_count()),
    }


if __name__ == "__main__":
    sys.exit(main())
