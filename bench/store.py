"""What publishing and pulling cost beside the bare transfer: our store, and plain boto3 with the same bytes, one run.

    python -m bench.store --round-trips-ms 0 30 --rounds 7

A real S3 server (SeaweedFS, ``registry/deploy/start_store.py``), 0 ms directly and anything else through a proxy that
delays (``delaying_proxy.py``). 1,000 objects of 40 KB, 32 threads, as a build's reads and checks have. The ways take
turns, in an order that changes; every round writes under a prefix of its own. Plain boto3 moves the stored bytes and
checks nothing: what ours adds is compression, two sha256, the condition, the retries' deadline, the check of what came.

"random" objects do not shrink, so 40 KB go over the wire; "code" shrinks to a quarter, as objects of kernels do.
Whether the proxy is in the way is measured too: the same bytes through it without a delay.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernelforge.descriptor import Descriptor
from kernelforge.store import frames
from kernelforge.store.blobs import get_blob, put_blob
from kernelforge.store.locate import open_store

BUCKET = "bench"
THREADS = 32
_SCRIPTS = Path(__file__).parents[1]
_FIRST_PORT = 18333
_KINDS = ("random", "code")


@dataclass(frozen=True)
class Task:
    """The same work for both ways: contents to publish, and the bytes that are stored of them."""

    contents: Sequence[bytes]
    stored: Sequence[bytes]

    @classmethod
    def of(cls, kind: str, count: int, size_bytes: int, seed: int) -> Task:
        """``count`` objects that differ from those of every other seed."""
        source = random.Random(seed)
        contents = [_content(kind, size_bytes, source) for _ in range(count)]
        shrunk = [frames.compress(content) for content in contents]
        stored = [min(content, frame, key=len) for content, frame in zip(contents, shrunk, strict=True)]
        return cls(contents, stored)


def _content(kind: str, size_bytes: int, source: random.Random) -> bytes:
    if kind == "random":
        return source.randbytes(size_bytes)
    # 16-byte words, as instructions are, most of them seen before: zstd leaves 0.25 of it, as of real objects.
    words = [source.randbytes(16) for _ in range(size_bytes // 64)]
    return b"".join(source.choices(words[:24] + words, weights=[40] * 24 + [1] * len(words), k=size_bytes // 16))


class Plain:
    """boto3 as its manual shows it, with as many connections as there are threads."""

    def __init__(self, endpoint_url: str, prefix: str) -> None:
        import boto3
        import botocore.config

        config = botocore.config.Config(max_pool_connections=THREADS)
        self._client = boto3.client("s3", endpoint_url=endpoint_url, region_name="us-east-1", config=config)
        self._prefix = prefix

    def publish(self, task: Task) -> list[str]:
        names = [f"{self._prefix}/plain/{number}" for number in range(len(task.stored))]
        return _at_once(lambda name, data: self._put(name, data), names, task.stored)

    def pull(self, names: Sequence[str]) -> list[bytes]:
        return _at_once(self._get, names)

    def _put(self, name: str, data: bytes) -> str:
        self._client.put_object(Bucket=BUCKET, Key=name, Body=data)
        return name

    def _get(self, name: str) -> bytes:
        data: bytes = self._client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        return data


class Ours:
    """A store as commands open it."""

    def __init__(self, endpoint_url: str, prefix: str) -> None:
        self._store = open_store(f"s3://{BUCKET}/{prefix}?endpoint={endpoint_url}&region=us-east-1")

    def publish(self, task: Task) -> list[Descriptor]:
        return _at_once(lambda content: put_blob(self._store, content), task.contents)

    def pull(self, blobs: Sequence[Descriptor]) -> list[bytes]:
        return _at_once(lambda blob: get_blob(self._store, blob), blobs)


def _at_once(action: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(action, *arguments))


def one_round(endpoint_url: str, task: Task, number: int) -> dict[str, float]:
    """Seconds by step and way. Both have made their client, and one request with it, before the clock starts."""
    prefix = f"round-{number}-{time.time_ns()}"
    ways: list[tuple[str, Any]] = [("boto3", Plain(endpoint_url, prefix)), ("ours", Ours(endpoint_url, prefix))]
    warm_up = Task.of("random", 1, 1000, time.time_ns())
    seconds: dict[str, float] = {}
    stored: dict[str, Any] = {}
    for _, way in ways:
        way.pull(way.publish(warm_up))
    for name, way in random.sample(ways, len(ways)):
        seconds[f"publish, {name}"], stored[name] = _timed(partial(way.publish, task))
    for name, way in random.sample(ways, len(ways)):
        seconds[f"pull, {name}"], pulled = _timed(partial(way.pull, stored[name]))
        if pulled != (task.contents if name == "ours" else task.stored):
            raise SystemExit(f"{name}: other bytes came back")
    return seconds


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = action()
    return time.perf_counter() - started, result


def measure(endpoint_url: str, options: argparse.Namespace) -> dict[str, Any]:
    """By kind of object and distance: medians of all rounds, and the median of each round's ratio."""
    found: dict[str, list[dict[str, float]]] = {}
    with contextlib.ExitStack() as proxies:
        distances = {f"{round_trip_ms:g} ms": endpoint_url for round_trip_ms in options.round_trips_ms}
        for round_trip_ms in options.round_trips_ms:
            if round_trip_ms:
                distances[f"{round_trip_ms:g} ms"] = proxies.enter_context(proxy(endpoint_url, round_trip_ms / 1e3))
        distances["proxy, 0 ms"] = proxies.enter_context(proxy(endpoint_url, 0.0))
        for number in range(options.rounds):
            for kind in _KINDS:
                task = Task.of(kind, options.objects, options.object_bytes, time.time_ns())
                for distance, url in random.sample(sorted(distances.items()), len(distances)):
                    found.setdefault(f"{kind}, {distance}", []).append(one_round(url, task, number))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return {name: _summary(rounds) for name, rounds in sorted(found.items())}


def _summary(rounds: Sequence[dict[str, float]]) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for step in ("publish", "pull"):
        plain, ours = ([row[f"{step}, {way}"] for row in rounds] for way in ("boto3", "ours"))
        ratios = [our / their for our, their in zip(ours, plain, strict=True)]
        summary[step] = {
            "boto3_s": statistics.median(plain),
            "ours_s": statistics.median(ours),
            "ratio": statistics.median(ours) / statistics.median(plain),
            "ratios": [min(ratios), statistics.median(ratios), max(ratios)],
        }
    return summary


@contextlib.contextmanager
def proxy(endpoint_url: str, round_trip_s: float) -> Iterator[str]:
    """The endpoint of a proxy in a process of its own."""
    script = str(Path(__file__).with_name("delaying_proxy.py"))
    with _process([sys.executable, script, endpoint_url.rpartition("/")[2], str(round_trip_s)]) as port:
        yield f"http://127.0.0.1:{int(port)}"


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A fresh SeaweedFS; its keys are in this process's environment meanwhile."""
    script = str(_SCRIPTS / "registry" / "deploy" / "start_store.py")
    with tempfile.TemporaryDirectory(prefix="store-bench-") as folder:
        command = [sys.executable, script, "--folder", folder, "--port", str(_FIRST_PORT), "--bucket", BUCKET]
        with _process(command) as line:
            os.environ.update(dict(part.split("=", 1) for part in line.split()[1:]))
            yield f"http://127.0.0.1:{_FIRST_PORT}"


@contextlib.contextmanager
def _process(command: Sequence[str]) -> Iterator[str]:
    """A process that says one line when it is ready, and is interrupted in the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.terminate()
            process.stdout.read()


def table(found: dict[str, Any]) -> str:
    """One line for each kind, distance and step."""
    lines = [f"{'objects, round trip':22} {'':8} {'boto3 s':>8} {'ours s':>8} {'ratio':>6}   of single rounds"]
    for name, steps in found.items():
        for step, row in steps.items():
            low, middle, high = row["ratios"]
            numbers = f"{row['boto3_s']:8.2f} {row['ours_s']:8.2f} {row['ratio']:6.2f}"
            lines.append(f"{name:22} {step:8} {numbers}   {low:.2f} {middle:.2f} {high:.2f}")
    return "\n".join(lines)


def machine() -> dict[str, str]:
    """What a result depends on."""
    import boto3
    import botocore
    import zstandard

    return {
        "python": platform.python_version(),
        "boto3": boto3.__version__,
        "botocore": botocore.__version__,
        "zstandard": zstandard.__version__,
        "cpus": str(os.cpu_count()),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--round-trips-ms", type=float, nargs="+", default=[0.0, 30.0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--object-bytes", type=int, default=40_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with server() as endpoint_url:
        found = {"machine": machine(), "found": measure(endpoint_url, options)}
    print(json.dumps(found, indent=1) if options.json else f"{found['machine']}\n{table(found['found'])}")


if __name__ == "__main__":
    main()
