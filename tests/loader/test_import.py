"""What importing costs: nothing heavy, nothing touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelforge.release.signature import signature_path
from tests.loader.python_process import run_python
from tests.release.signed import OURS, signature
from tests.small_release import LOCK

BLOCKED = (
    "torch",
    "cutlass",
    "tvm_ffi",
    "boto3",
    "botocore",
    "pydantic",
    "yaml",
    "click",
    "zstandard",
    "rich",
    "cryptography",
    "securesystemslib",
)
BLOCK = f"""
import sys
for name in {BLOCKED!r}:
    sys.modules[name] = None
"""


@pytest.mark.parametrize(
    "imported",
    [
        "import kernelforge; [getattr(kernelforge, name) for name in kernelforge.__all__]",
        "import kernelforge; kernelforge.TrustedKeys(['release.pub']), kernelforge.FromStore('sha256:' + '0' * 64)",
        "import kernelforge.loader.load",
        "import kernelforge.loader.driver, kernelforge.loader.occupancy, kernelforge.loader.measured_profile",
        "import kernelforge.kernels.qk_norm, kernelforge.kernels.rms_norm",
        "import tests.loader.scale",
    ],
)
def test_import_with_everything_heavy_blocked(imported: str) -> None:
    run_python(BLOCK + imported)


_CHECK_A_SIGNATURE = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
from kernelforge.loader.trust import TrustedKeys, read_trusted
print(read_trusted({lockfile!r}, TrustedKeys([{key!r}])).digest)
print("kernelforge.store" in sys.modules)
"""


def signed_file(folder: Path) -> dict[str, str]:
    lockfile, key = folder / "x.lock.json", folder / "x.pub"
    lockfile.write_bytes(LOCK.to_bytes())
    beside = signature_path(lockfile, OURS.public.key_id)
    beside.parent.mkdir()
    beside.write_bytes(signature())
    key.write_bytes(OURS.public.to_pem())
    return {"lockfile": str(lockfile), "key": str(key)}


def test_a_signature_is_checked_without_what_signs_and_without_a_store(tmp_path: Path) -> None:
    """The signers' imports bring boto3, which takes a pod 100 ms; the check itself takes 0.1 ms."""
    blocked = [name for name in BLOCKED if name != "cryptography"]
    lines = run_python(_CHECK_A_SIGNATURE.format(blocked=blocked, **signed_file(tmp_path))).splitlines()
    assert lines == [str(LOCK.digest), "False"]


def test_an_image_that_cannot_check_signatures_says_what_it_lacks(tmp_path: Path) -> None:
    code = _CHECK_A_SIGNATURE.format(blocked=["cryptography"], **signed_file(tmp_path))
    words = run_python(f"try:\n    exec({code!r})\nexcept Exception as error:\n    print(error)")
    assert "signatures need cryptography" in words
    assert "kernelforge[sign]" in words


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
