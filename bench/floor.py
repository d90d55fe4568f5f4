"""The least that N verified callables can cost: sha256 of the same bytes, one dlopen, N look-ups; nothing of ours.

Bytes are mapped, which is the fastest way to have them (in a fresh process a copy of 14 MB takes as long as half of
its sha256). What comes out can be called, as what the loader returns.
"""

from __future__ import annotations

import hashlib
import mmap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def floor(lockfile: Path, pack: Path, symbols: Sequence[str]) -> tuple[dict[str, float], list[Any]]:
    """Seconds by step, and the functions; ``tvm_ffi`` has been imported."""
    import tvm_ffi

    started = time.perf_counter()
    for path in (lockfile, pack):
        with open(path, "rb") as file:
            flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE
            with mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as data:
                hashlib.sha256(data).hexdigest()
    hashed = time.perf_counter()
    module = tvm_ffi.load_module(pack)
    opened = time.perf_counter()
    functions = [module.get_function(symbol) for symbol in symbols]
    found = time.perf_counter()
    return {"sha256": hashed - started, "dlopen": opened - hashed, "symbols": found - opened}, functions
