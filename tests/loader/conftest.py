"""The release that the loader's tests share; each test that opens packs gets places of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernelforge.contract import kernel_name, symbol_of
from kernelforge.loader.kernel_set import KernelSet
from kernelforge.loader.load import load
from kernelforge.loader.trust import LocalFile
from kernelforge.lockfile import Lockfile
from kernelforge.store.blobs import put_blob
from kernelforge.store.memory import MemoryStore
from tests.loader.fake_release import H200, KEYS, TRACE_VARIABLE, compile_pack, lockfile
from tests.loader.scale import Scale


@dataclass(frozen=True)
class Release:
    """A pack, its lockfile, and a store and a cache folder of the test's own."""

    library: bytes
    lock: Lockfile
    store: MemoryStore
    cache: Path
    folder: Path

    @property
    def trace(self) -> Path:
        """Exists once any fake pack was opened."""
        return self.folder / "opened"

    @property
    def cached(self) -> Path:
        """The pack's file in the cache."""
        return self.cache / "packs" / f"{self.lock.packs['h200-sxm'].blob.content_digest.hex}.so"

    def load(self, lock: Lockfile | None = None, **options: Any) -> KernelSet:
        """``load`` on an H200, from this store and cache, with a lockfile that is a file; ``options`` override."""
        path = self.folder / "test.lock.json"
        path.write_bytes((lock or self.lock).to_bytes())
        defaults = {"trust": LocalFile(), "store": self.store, "cache": self.cache, "device": H200}
        return load(path, **{**defaults, **options})


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    symbols = [symbol_of(kernel_name(Scale), key) for key in KEYS]
    return compile_pack(tmp_path_factory.mktemp("pack"), symbols)


@pytest.fixture
def release(library: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    folder = tmp_path / "release"
    folder.mkdir()
    store = MemoryStore()
    lock = lockfile(library)
    assert put_blob(store, library, compress=False) == lock.packs["h200-sxm"].blob
    made = Release(library, lock, store, tmp_path / "cache", folder)
    monkeypatch.setenv(TRACE_VARIABLE, str(made.trace))
    return made
