"""Time and memory of garbage collection, and how they grow: ``python -m bench.gc --objects 10000 50000 100000``.

A store is filled with releases of 500 keys (object, cubin and build record of each, a pack, a lockfile); channels point
at four of five, and nothing at the fifth. Everything counts as 100 days old. Then, each in a fresh process: a plan, a
run that lists what nothing needs, a run that deletes it. Memory is the peak of the process above what it had before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote, urlsplit

from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile, Fact
from kernelforge.digest import Digest
from kernelforge.lockfile import LockedEntry, LockedKernel, LockedPack, Lockfile
from kernelforge.release.envelope import seal
from kernelforge.release.gc.collect import collect, survey
from kernelforge.release.gc.retention import Retention
from kernelforge.release.keys import SigningKey
from kernelforge.release.refs import PAYLOAD_TYPE, Ref
from kernelforge.store.actions import BuildRecord
from kernelforge.store.file import FileStore
from kernelforge.store.interface import PruneStore, StoredObject
from kernelforge.store.layout import GC_PREFIX, action_name, blob_name, lock_name, ref_name
from kernelforge.store.locate import open_store
from kernelforge.target import Target

_TARGET = Target("sm_90a")
_KEYS = 500
_AGE_S = 100 * 86400.0
_STEPS = ("plan", "list", "delete")
_RETENTION = Retention(grace_s=0, allow_fraction=1.0)


def release(number: int) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of all that a release has in a store, its ref included unless nothing points at it."""
    entries, symbols = [], [f"kf_{number}_{key}" for key in range(_KEYS)]
    for symbol in symbols:
        data, cubin = f"object of {symbol} ".encode() * 20, f"cubin of {symbol} ".encode() * 20
        blob, key_digest = Descriptor.raw(data), Digest.of(symbol.encode())
        record = BuildRecord(key_digest, {"object": blob, "cubin": Descriptor.raw(cubin)}, {}, 0.5, {"kernel": symbol})
        yield blob_name(blob.stored_digest), data
        yield blob_name(Digest.of(cubin)), cubin
        yield action_name("release", key_digest), record.to_bytes()
        entries.append(LockedEntry("m:K", {"n": symbol}, _TARGET, key_digest, symbol, blob, ("h200",)))
    lock = _lock(f"model-{number}", tuple(entries))
    yield blob_name(lock.packs["h200"].blob.stored_digest), _pack_bytes(lock.name)
    yield lock_name(lock.digest), lock.to_bytes()
    if number % 5:
        now = datetime.now(timezone.utc)
        ref = Ref(lock.name, "prod", lock.digest, 1, now, now + timedelta(days=90), None, None, None, "bench", "")
        yield ref_name(lock.name, "prod"), seal(ref.to_bytes(), PAYLOAD_TYPE, SigningKey.new())


def _pack_bytes(name: str) -> bytes:
    return f"pack of {name}".encode()


def _lock(name: str, entries: tuple[LockedEntry, ...]) -> Lockfile:
    digest = Digest.of(name.encode())
    pack = LockedPack(_TARGET, digest, Descriptor.raw(_pack_bytes(name)), "lld", (), ())
    return Lockfile(
        name=name,
        abi="tvm-ffi",
        contract=1,
        toolchains={"cu13": {"flavour": "cu13"}},
        devices={"h200": DeviceProfile("h200", "sm_90a", {"num_sms": Fact(132, "measured")})},
        kernels={"m:K": LockedKernel(digest, digest, {}, "")},
        entries=entries,
        packs={"h200": pack},
    )


def fill(store: PruneStore, objects: int) -> None:
    """Put releases there until the store has so many objects."""
    contents = (item for number in range(1, objects // (3 * _KEYS) + 1) for item in release(number))
    if isinstance(store, FileStore):
        root = Path(unquote(urlsplit(store.location).path))
        for name, data in contents:  # not through the store, which waits for the disk after each
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        return
    with ThreadPoolExecutor(32) as pool:
        for _ in pool.map(lambda item: store.create(*item), contents):
            pass


def step(name: str, location: str) -> dict[str, Any]:
    """One step in this process."""
    store = open_store(location)
    before = _memory_bytes("VmRSS")
    started = time.perf_counter()
    with mock.patch.object(store, "listed", _older(store.listed)):
        is_plan = name == "plan"
        found = survey(store, _RETENTION, now_s=time.time()) if is_plan else collect(store, _RETENTION).survey
    return {
        "step": name,
        "objects": found.plan.objects,
        "left over": len(found.plan.candidates),
        "seconds": round(time.perf_counter() - started, 2),
        "memory_mb": round((_memory_bytes("VmHWM") - before) / 1e6, 1),
        "requests": store.traffic.requests,
    }


def _older(listed: Callable[[str], Iterator[StoredObject]]) -> Callable[..., Iterator[StoredObject]]:
    """A listing in which everything but the collector's own is 100 days older."""

    def look(prefix: str = "") -> Iterator[StoredObject]:
        for found in listed(prefix):
            is_own = found.name.startswith(GC_PREFIX)
            yield found if is_own else replace(found, modified_s=found.modified_s - _AGE_S)

    return look


def _memory_bytes(what: str) -> int:
    """``VmRSS`` now, or ``VmHWM``, the peak: not getrusage's, which a child takes over from its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024


def measure(objects: int, location: str) -> Iterator[dict[str, Any]]:
    """All steps on a store of its own, each in a fresh process."""
    fill(open_store(location), objects)
    for name in _STEPS:
        command = [sys.executable, "-m", "bench.gc", "--step", name, "--store", location]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found: dict[str, Any] = json.loads(printed)
        yield found


def main() -> None:
    """Fill, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, nargs="+", default=[10_000, 50_000, 100_000])
    parser.add_argument("--store", help="an empty place, such as s3://bucket/prefix?endpoint=URL  [default: a folder]")
    parser.add_argument("--step", choices=_STEPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(step(arguments.step, arguments.store)))
        return
    print("| objects | step | left over | seconds | memory MB | requests |\n|---|---|---|---|---|---|")
    for objects in arguments.objects:
        with tempfile.TemporaryDirectory(prefix="kernelforge-gc-") as folder:
            for found in measure(objects, _place(arguments.store, folder, objects)):
                cells = (found["left over"], found["seconds"], found["memory_mb"], found["requests"])
                print(f"| {found['objects']:,} | {found['step']} | " + " | ".join(map(str, cells)) + " |", flush=True)


def _place(store: str | None, folder: str, objects: int) -> str:
    """A place for so many objects: a folder, or a prefix below the one that was given."""
    if store is None:
        return folder
    prefix, question, options = store.partition("?")
    return f"{prefix}/{objects}{question}{options}"


if __name__ == "__main__":
    main()
