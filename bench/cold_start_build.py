"""The half of ``cold_start.py`` that needs the compiler: releases of N real kernels in a folder that can be carried.

Uses the command line as CI would: a manifest, ``kernelforge build``, a file store. What a pod never asks for (build
records, most objects) stays behind.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelforge.digest import Digest
from kernelforge.lockfile import Lockfile
from kernelforge.store.blobs import get_blob, put_blob
from kernelforge.store.file import FileStore
from kernelforge.store.layout import lock_name

PROFILE = "h200-sxm"
KERNEL = "kernelforge.kernels.rms_norm:RmsNorm"
STORE = "store"
OBJECTS = "objects"
# How many keys can be had without compiling one for another row length: residual or not, two eps, two weight offsets.
_PER_HIDDEN = {60: 4, 300: 4, 1000: 8}
# The numbers of keys whose objects are kept one by one, for the loader that takes object files.
_WITH_OBJECTS = (60, 300)


def build(out: Path, counts: Sequence[int], *, jobs: int) -> None:
    """Write ``<N>.lock.json`` for each count, one store with all packs, and ``objects/<N>/<symbol>.o``.

    The keys of a smaller release are among those of a larger one, so each is compiled once.
    """
    out.mkdir(parents=True, exist_ok=True)
    for leftover in (STORE, OBJECTS):
        shutil.rmtree(out / leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for count in sorted(counts):
            lock_path = out / f"{count}.lock.json"
            _build_one(work, count, lock_path, jobs)
            _keep(Lockfile.parse(lock_path.read_bytes()), FileStore(work / STORE), out, count)
    for path in out.glob("*.facts.json"):
        path.unlink()
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size / 2**20:.1f} MiB", file=sys.stderr)


def manifest(count: int) -> dict[str, Any]:
    """A deployment with ``count`` compile keys of ``RmsNorm``: row lengths times the choices that decide code."""
    per_hidden = _PER_HIDDEN[count]
    arguments = {
        "tokens": 16,
        "hidden": {"choices": [1024 + 120 * index for index in range(count // per_hidden)]},
        "dtype": "bfloat16",
        "has_residual": {"choices": [False, True]},
        "eps": {"choices": [1e-6, 1e-5]},
        "weight_offset": {"choices": [0.0, 1.0][: per_hidden // 4]},
    }
    return {
        "schema": "kernelforge.manifest/1",
        "name": f"cold-start-{count}",
        "targets": [PROFILE],
        "kernels": [{"kernel": KERNEL, "arguments": arguments}],
    }


def _build_one(work: Path, count: int, lock_path: Path, jobs: int) -> None:
    path = work / f"{count}.yaml"
    path.write_text(json.dumps(manifest(count)))  # JSON is YAML
    command = [sys.executable, "-m", "kernelforge.cli.main", "build", str(path)]
    command += ["--store", (work / STORE).as_uri(), "--lock", str(lock_path), "--jobs", str(jobs)]
    subprocess.run(command, check=True)


def _keep(lock: Lockfile, built: FileStore, out: Path, count: int) -> None:
    if len(lock.entries) != count:
        raise SystemExit(f"the manifest gave {len(lock.entries)} keys instead of {count}")
    kept = FileStore(out / STORE)
    blob = lock.packs[PROFILE].blob
    if put_blob(kept, get_blob(built, blob), compress=blob.encoding != "raw") != blob:
        raise SystemExit("the pack was stored as other bytes than the lockfile names")
    data = lock.to_bytes()
    kept.create(lock_name(Digest.of(data)), data)
    if count in _WITH_OBJECTS:
        folder = out / OBJECTS / str(count)
        folder.mkdir(parents=True)
        for entry in lock.entries:
            (folder / f"{entry.symbol}.o").write_bytes(get_blob(built, entry.object))
