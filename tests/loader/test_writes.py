"""Where nothing may be written, nothing is: a load in a process whose every write is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelforge.store.blobs import put_blob
from kernelforge.store.file import FileStore
from tests.loader.conftest import Release
from tests.loader.python_process import run_python

LOAD = """
import json, logging, os, sys
sys.dont_write_bytecode = True
sys.modules["torch"] = None  # tvm-ffi imports it where it is installed, which takes seconds
import tvm_ffi
writes, warnings = [], []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        path, mode, flags = arguments
        if (flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            writes.append(f"open {path}")
    if event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "os.chmod", "tempfile.mkstemp"):
        writes.append(f"{event} {arguments}")
    if event == "subprocess.Popen":
        writes.append(f"{event} {arguments[0]}")
class Warnings(logging.Handler):
    def emit(self, record):
        warnings.append(record.getMessage())
logging.getLogger("kernelforge").addHandler(Warnings(logging.WARNING))
from kernelforge import LocalFile, load
from tests.loader.fake_release import H200, KEYS
lock, options = sys.argv[1], json.loads(sys.argv[2])
sys.addaudithook(watch)
kernels = load(lock, trust=LocalFile(), device=H200, **options)
results = [kernels[key](1) for key in KEYS]
print(json.dumps([results, kernels.stats().is_in_memory, writes, warnings]))
"""
POD = {"PATH": "", "CUDA_HOME": "", "HOME": "", "XDG_CACHE_HOME": "", "KERNELFORGE_CACHE": ""}


@pytest.fixture
def lock(release: Release) -> Path:
    path = release.folder / "x.lock.json"
    path.write_bytes(release.lock.to_bytes())
    return path


def load_in_a_pod(lock: Path, **options: str) -> list[object]:
    answer: list[object] = json.loads(run_python(LOAD, str(lock), json.dumps(options), environment=POD))
    return answer


def test_a_named_pack_needs_no_writable_place_and_no_tools(release: Release, lock: Path) -> None:
    """C10: empty PATH, no CUDA_HOME, no HOME."""
    (release.folder / "pack.so").write_bytes(release.library)
    assert load_in_a_pod(lock, pack=str(release.folder / "pack.so")) == [[1, 2, 3], False, [], []]


def test_a_warm_cache_is_only_read(release: Release, lock: Path) -> None:
    release.load()
    assert load_in_a_pod(lock, cache=str(release.cache)) == [[1, 2, 3], False, [], []]


def test_without_any_cache_folder_the_pack_stays_in_memory(release: Release, lock: Path) -> None:
    store = release.folder / "store"
    put_blob(FileStore(store), release.library, compress=False)
    results, is_in_memory, writes, warnings = load_in_a_pod(lock, store=str(store))
    assert (results, is_in_memory, writes) == ([1, 2, 3], True, [])
    assert warnings == [
        "the pack is opened from memory: there is no cache folder "
        "(no cache=, KERNELFORGE_CACHE, XDG_CACHE_HOME or HOME)"
    ]
