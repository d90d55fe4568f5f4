"""A world for plans: a kernel project in a folder, and what a build of a plan would leave. No compiler."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelforge.builder.build import BuildResult, BuiltKey
from kernelforge.cli.outcome import lockfile_of
from kernelforge.digest import Digest
from kernelforge.lockfile import LockedPack, Lockfile
from kernelforge.plan import Plan
from kernelforge.release.publish import publish_lockfile
from kernelforge.reporting import Outcome
from kernelforge.store.actions import ActionCache, BuildRecord
from kernelforge.store.blobs import put_blob
from kernelforge.store.interface import PruneStore

KERNEL = """
from dataclasses import dataclass
from typing import Any
from kernelforge.contract import JitKernel

class Fill(JitKernel["Fill.CompileKey"]):
    compile_options = "--opt-level 3"
    requires_dsl = ">=4.8"

    @dataclass(frozen=True)
    class CompileKey:
        width: Any
        num_sms: int

    def dispatch(self, *, width):
        return self.CompileKey(width=width, num_sms=self.device.num_sms)

    @staticmethod
    def kernel(compile_key):
        from planned_device import entry
        return entry

    def warmup_inputs(self, compile_key):
        return ()

class Other(Fill):
    @dataclass(frozen=True)
    class CompileKey(Fill.CompileKey):
        pass
"""
DEVICE_CODE = """
import a_compiler_that_is_not_installed

def entry(values):
    values[0] = helper()

def helper():
    return 1
"""


@contextmanager
def kernel_project(folder: Path) -> Iterator[Path]:
    """Modules ``planned`` (the kernel classes) and ``planned_device``, importable from ``folder``."""
    (folder / "planned.py").write_text(KERNEL)
    (folder / "planned_device.py").write_text(DEVICE_CODE)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield folder
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("planned", None)


def build_without_compiling(plan: Plan, store: PruneStore) -> Lockfile:
    """Leave an object, a record and a pack for everything in ``plan``, as a complete build does."""
    cache = ActionCache(store, "dev")
    keys = []
    for planned in plan.keys:
        blob = put_blob(store, f"object of {planned.key_digest}".encode())
        record = BuildRecord(planned.key_digest, {"object": blob}, {"registers": 40}, 0.5, planned.preimage.to_json())
        cache.put(record)
        keys.append(BuiltKey(planned, Outcome.BUILT, "", blob, record.facts, record.seconds))
    packs = {
        device: LockedPack(target, Digest.of(b"recipe"), put_blob(store, f"pack of {device}".encode()), "lld", (), ())
        for device, (_, target) in plan.targets.items()
    }
    lock = lockfile_of(plan, BuildResult(tuple(keys), packs, 0, ()))
    publish_lockfile(lock, store, facts=None, domain="dev")
    return lock
