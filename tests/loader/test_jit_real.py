"""The policy 'jit' with the real builder: a serving process gets a kernel that only the fresh one could compile."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernelforge.builder.job import OBJECT_FILE
from kernelforge.builder.link import find_linker
from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile
from kernelforge.misses import Misses
from kernelforge.target import Target
from tests.builder.compiling import compile_all, requests_of
from tests.kernel_family import Copy
from tests.kernels.recorded_launch import recording_runtime
from tests.loader.fake_release import TARGET, locked_entry, lockfile
from tests.loader.python_process import run_python

pytestmark = pytest.mark.slow

SERVE = """
import ctypes, json, sys
sys.modules["torch"] = None  # takes seconds to import
import tvm_ffi
lock, pack, runtime, cache = sys.argv[1:]
ctypes.CDLL(runtime, ctypes.RTLD_GLOBAL)
from kernelforge import LocalFile, load
from kernelforge.errors import CallRefused
from tests.kernel_family import Copy
from tests.loader.fake_release import H200
kernels = load(
    lock, trust=LocalFile(), pack=pack, cache=cache, device=H200,
    policy="jit", compile_missing="kernelforge.builder.single:compile_missing",
)
refusals = []
for width in (32, 64):
    try:
        kernels[Copy.CompileKey(width=width, num_sms=132)](1)
    except CallRefused as refusal:
        refusals.append(str(refusal))
compilers = [name for name in sys.modules if name.partition(".")[0] in ("cutlass", "elftools", "ziglang")]
print(json.dumps([refusals, kernels.stats().jit, compilers]))
"""


def test_the_process_that_serves_never_sees_the_compiler(tmp_path: Path, h200: DeviceProfile) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    (built,) = compile_all(requests_of("Copy"), [h200], folder).values()
    linked = find_linker(Target("sm_90a")).link([(built.job.symbol, (built.folder / OBJECT_FILE).read_bytes())], folder)
    made = lockfile(linked.library, keys=())
    locked = replace(
        made.packs["h200-sxm"],
        blob=Descriptor.raw(linked.library),
        needed=linked.needed,
        undefined=linked.undefined,
    )
    lock = replace(
        made,
        kernels={"tests.kernel_family:Copy": made.kernels["tests.loader.scale:Scale"]},
        entries=(locked_entry(Copy.CompileKey(width=32, num_sms=132), target=TARGET),),
        packs={"h200-sxm": locked},
    )
    (tmp_path / "x.lock.json").write_bytes(lock.to_bytes())
    (tmp_path / "pack.so").write_bytes(linked.library)
    runtime = recording_runtime(linked.library, TARGET, folder)
    cache = tmp_path / "cache"
    paths = [str(path) for path in (tmp_path / "x.lock.json", tmp_path / "pack.so", runtime, cache)]
    for _ in range(2):  # the second process takes over what the first compiled
        refusals, jit, compilers = json.loads(run_python(SERVE, *paths))
        assert (jit, compilers) == (1, [])
        assert ["width=32" in refusals[0], "width=64" in refusals[1]] == [True, True]
        assert all("Expects 2 parameters" in refusal for refusal in refusals)
    documents = [Misses.parse(path.read_bytes(), where=str(path)) for path in (cache / "misses").iterdir()]
    assert [key.compile_key for document in documents for key in document.keys] == [{"width": 64, "num_sms": 132}] * 2
    assert len(list((cache / "packs").glob("*.so"))) == 1
