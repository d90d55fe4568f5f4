"""What importing costs: nothing heavy, nothing touched."""

from __future__ import annotations

import json

import pytest

from tests.loader.python_process import run_python

BLOCKED = ("torch", "cutlass", "tvm_ffi", "boto3", "botocore", "pydantic", "yaml", "click", "zstandard", "rich")
BLOCK = f"""
import sys
for name in {BLOCKED!r}:
    sys.modules[name] = None
"""


@pytest.mark.parametrize(
    "imported",
    [
        "import kernelforge; kernelforge.load, kernelforge.KernelSet, kernelforge.LocalFile, kernelforge.PinnedDigest",
        "import kernelforge.loader.load",
        "import kernelforge.loader.driver, kernelforge.loader.occupancy, kernelforge.loader.measured_profile",
        "import kernelforge.kernels.qk_norm, kernelforge.kernels.rms_norm",
        "import tests.loader.scale",
    ],
)
def test_import_with_everything_heavy_blocked(imported: str) -> None:
    run_python(BLOCK + imported)


def test_import_writes_nothing_and_opens_no_library() -> None:
    code = """
import json, sys
seen = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        seen.append(repr(arguments[0]))
    if event in ("os.mkdir", "os.rename", "os.remove", "socket.connect", "subprocess.Popen", "ctypes.dlopen"):
        seen.append(f"{event} {arguments}")
sys.dont_write_bytecode = True
import ctypes  # opens the interpreter itself
sys.addaudithook(watch)
import kernelforge.loader.load
print(json.dumps(seen))
"""
    assert json.loads(run_python(code)) == []
