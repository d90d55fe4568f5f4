"""Classes written for vLLM's CuTeDSL base class: change the module that they import from, and they build and launch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelforge.contract import CuTeDSLLaunchSpec, VllmCuTeDSLJitKernel, WarmupChoices, WarmupIntRange
from tests.loader.python_process import run_python

SOURCE = Path(__file__).with_name("vllm_shaped_kernel.py")
_IMPORTS = (
    ("from vllm.model_executor.warmup.jit_warmup import ", "from kernelforge.contract import "),
    ("from vllm.model_executor.warmup.jit_warmup_cutedsl_helper import ", "from kernelforge.contract import "),
)

# In a process of its own: the class's module imports the compiler.
_PLAN_BUILD_AND_LAUNCH = """
import json, sys
sys.path.insert(0, sys.argv[1])
from kernelforge.builder.build import BuildOptions, build
from kernelforge.builder.job import Limits
from kernelforge.device import DeviceProfile
from kernelforge.plan import make_plan
from kernelforge.request import KernelRequest
from kernelforge.store.actions import ActionCache
from kernelforge.store.blobs import get_blob
from kernelforge.store.memory import MemoryStore
from kernelforge.target import Target

store, profile = MemoryStore(), DeviceProfile("h200", "sm_90a", {})
request = KernelRequest("adopted:ScaleRows", {"max_tokens": 64, "width": 64})
targets = [(profile, Target(profile.arch))]
plan = make_plan("adopted", [request], targets, store=store, domain="dev", lock=None, recorded={})
options = BuildOptions(workers=2, limits=Limits(120, 4 << 30), sys_path=tuple(sys.path))
result = build(plan, store=store, domain="dev", options=options, on_progress=lambda key: None)
record = ActionCache(store, "dev").get(plan.keys[0].key_digest)

class Launches:
    device = profile
    def bind(self, kernel_class): pass
    def __getitem__(self, compile_key):
        self.key = compile_key
        return lambda x, out, factor: out[0].__setitem__(0, x[0][0] * factor)

import adopted
launches = Launches()
adopted._SCALE_ROWS.bind(launches)
returned = adopted._SCALE_ROWS([[3.0] * 64], 2.0, negate=True)
print(json.dumps({
    "points": plan.expansions[0].points,
    "keys": len(plan.keys),
    "failures": [str(key.failure) for key in result.keys if key.failure],
    "packs": sorted(result.packs),
    "has the option": b"-maxrregcount 64 " in get_blob(store, record.outputs["cubin"]),
    "launched": repr(launches.key),
    "returned": [returned[0], returned[1][0][0]],
}))
"""


@pytest.mark.slow
def test_only_the_imports_change(tmp_path: Path) -> None:
    """The class keeps its base class's name, its DSL scalar, its options, its epilogue and its singleton."""
    text = SOURCE.read_text()
    for theirs, ours in _IMPORTS:
        assert theirs in text
        text = text.replace(theirs, ours)
    (tmp_path / "adopted.py").write_text(text)
    found = json.loads(run_python(_PLAN_BUILD_AND_LAUNCH, str(tmp_path)))
    assert found == {
        "points": 128,
        "keys": 4,
        "failures": [],
        "packs": ["h200"],
        "has the option": True,
        "launched": "ScaleRows.CompileKey(width=64, rows_per_block=1, negate=True)",
        "returned": ["finished", 6.0],
    }


def test_the_names_that_such_classes_use() -> None:
    """Their ranges are half open, their choices are arguments, and their annotations have subscripts."""
    assert list(WarmupIntRange(1, 9, 4)) == [1, 5]
    assert list(WarmupChoices(False, True)) == [False, True]
    assert VllmCuTeDSLJitKernel["Any.CompileKey"]
    assert CuTeDSLLaunchSpec["Any.CompileKey"]
    assert VllmCuTeDSLJitKernel._trace_dispatch
