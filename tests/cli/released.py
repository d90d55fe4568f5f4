"""A small release without the compiler: a real manifest, real objects, a real pack and lockfile in a file store.

Objects come from the C compiler that the linker's wheel brings, each with a hand-written device image inside; all the
rest is what ``kernelforge build`` makes with its own code.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelforge.builder.build import BuildResult, BuiltKey
from kernelforge.builder.link import find_linker
from kernelforge.cli.deployment import read_deployment
from kernelforge.cli.outcome import facts_of, lockfile_of
from kernelforge.cli.wanted_keys import plan_keys
from kernelforge.lockfile import LockedPack, Lockfile
from kernelforge.plan import Plan, PlannedKey
from kernelforge.release.facts import facts_bytes, facts_path
from kernelforge.release.publish import publish_lockfile, write_file
from kernelforge.reporting import Outcome
from kernelforge.store.actions import ActionCache, BuildRecord
from kernelforge.store.blobs import get_blob, put_blob
from kernelforge.store.file import FileStore
from tests.cli.command import write_manifest
from tests.cli.device_image import device_image

SECONDS = 0.5
_FACTS = {"registers": 24, "spill_bytes": 0, "static_shared_memory_bytes": 0}

# Written out as numbers: the C compiler's cache does not know of files that assembly would include.
_OBJECT = """
__attribute__((visibility("hidden"))) const unsigned char image_{symbol}[] = {{ {image} }};
int __tvm_ffi_{symbol}(void *self, const void *arguments, int count, void *result) {{
  return *(volatile const unsigned char *)image_{symbol} != 0x7f;
}}
__attribute__((visibility("hidden"))) int __cute_internal_{symbol}_preload(int device, void **library) {{ return 0; }}
"""


@dataclass(frozen=True)
class Release:
    """Everything that a build leaves, inside ``folder``; commands find the store at ``file:store``."""

    folder: Path
    manifest: Path
    lock_path: Path
    lock: Lockfile

    @property
    def store(self) -> FileStore:
        """The store that has all of it."""
        return FileStore(self.folder / "store")

    def rewrite(self, lock: Lockfile) -> Lockfile:
        """Put another lockfile in the place of this one."""
        self.lock_path.write_bytes(lock.to_bytes())
        return lock


def make_release(folder: Path, *kernels: tuple[str, str], name: str = "small", targets: str = "[h200-sxm]") -> Release:
    """Release classes of ``tests.kernel_family``, given as (class name, YAML of the arguments)."""
    manifest = write_manifest(folder, *kernels, name=name, targets=targets)
    plan = plan_keys(read_deployment(manifest))
    store = FileStore(folder / "store")
    keys = tuple(_built(planned, store) for planned in plan.keys)
    result = BuildResult(keys, _packs(plan, keys, store), 0, ())
    lock, lock_path = lockfile_of(plan, result), folder / "registry" / "releases" / f"{name}.lock.json"
    facts = facts_bytes(lock.digest, facts_of(result))
    publish_lockfile(lock, store, facts=facts, domain="dev")
    write_file(lock_path, lock.to_bytes())
    write_file(facts_path(lock_path), facts)
    return Release(folder, manifest, lock_path, lock)


def object_file(symbol: str, image: bytes) -> bytes:
    """A relocatable object with one callable in tvm-ffi's convention and ``image`` in its read-only data."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "object.c").write_text(_OBJECT.format(symbol=symbol, image=", ".join(map(str, image))))
        command = [sys.executable, "-m", "ziglang", "cc", "-c", "-O2", "-g0", "-fPIC", "object.c", "-o", "object.o"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return (folder / "object.o").read_bytes()


def _built(planned: PlannedKey, store: FileStore) -> BuiltKey:
    blob = put_blob(store, object_file(planned.symbol, device_image(planned.target.arch)))
    record = BuildRecord(planned.key_digest, {"object": blob}, _FACTS, SECONDS, planned.preimage.to_json())
    ActionCache(store, "dev").put(record)
    return BuiltKey(planned, Outcome.BUILT, "never built", blob, _FACTS, SECONDS)


def _packs(plan: Plan, keys: Sequence[BuiltKey], store: FileStore) -> dict[str, LockedPack]:
    packs = {}
    for device, (_, target) in plan.targets.items():
        objects = {key.planned.symbol: key.object for key in keys if device in key.planned.devices and key.object}
        linker = find_linker(target)
        recipe = linker.recipe([(symbol, blob.content_digest) for symbol, blob in objects.items()])
        with tempfile.TemporaryDirectory() as folder:
            linked = linker.link([(symbol, get_blob(store, blob)) for symbol, blob in objects.items()], Path(folder))
        pack = put_blob(store, linked.library)
        packs[device] = LockedPack(target, recipe, pack, linker.identity, linked.needed, linked.undefined)
    return packs
