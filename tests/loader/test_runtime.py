"""Does the process have what a pack needs? Asked with real libraries, in processes of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelforge.errors import RuntimeUnfit
from kernelforge.loader.runtime import check_driver
from kernelforge.target import Target
from tests.loader.fake_release import TARGET, compile_c, locked_pack
from tests.loader.python_process import run_python

PREPARE = """
import ctypes, json, sys
sys.modules["torch"] = None  # tvm-ffi imports it where it is installed, which takes seconds
from kernelforge.errors import RuntimeUnfit
from kernelforge.loader.runtime import prepare_runtime
from tests.loader.fake_release import locked_pack
from dataclasses import replace
BUILT_WITH = {"apache-tvm-ffi": "0.1.99", "nvidia-cutlass-dsl-libs-cu13": "4.8.1"}
def attempt(**changes):
    try:
        prepare_runtime(replace(locked_pack(b"pack"), **changes), BUILT_WITH)
        return "fit"
    except RuntimeUnfit as error:
        return str(error)
"""


def fake_library(path: Path, source: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.parent / f"{path.name}.c"
    code.write_text(source)
    compile_c(code, path, f"-Wl,-soname,{path.name}")
    return path


def cuda_runtime(path: Path, version: int) -> Path:
    source = (
        f"int cudaRuntimeGetVersion(int *version) {{ return *version = {version}, 0; }}\nvoid cudaFake(void) {{}}\n"
    )
    return fake_library(path, source)


def ask(code: str, *arguments: str, environment: dict[str, str] | None = None) -> Any:
    return json.loads(run_python(f"{PREPARE}{code}", *arguments, environment=environment))


@pytest.mark.parametrize(
    ("cuda", "driver"), [("cu13", (13, 0)), ("cu13", (13, 2)), ("cu12", (12, 9)), ("cu12", (13, 0))]
)
def test_drivers_that_are_new_enough(cuda: str, driver: tuple[int, int]) -> None:
    check_driver(driver, locked_pack(b"", target=replace(TARGET, cuda=cuda)))


@pytest.mark.parametrize(
    ("cuda", "driver", "words"),
    [
        pytest.param("cu13", (12, 4), r"12\.4.*cu13.*13\.0.*580\.65\.06", id="550.144.03 and the CUDA 13 compiler"),
        pytest.param("cu12", (12, 8), r"12\.8.*cu12.*12\.9.*575\.51\.03", id="570 and the CUDA 12.9 compiler"),
    ],
)
def test_drivers_that_are_too_old(cuda: str, driver: tuple[int, int], words: str) -> None:
    """C5: with both versions, before the GPU is touched."""
    with pytest.raises(RuntimeUnfit, match=words):
        check_driver(driver, locked_pack(b"", target=Target("sm_90a", TARGET.host, cuda)))


def test_a_driver_that_would_do_for_the_other_flavour_is_told_so() -> None:
    with pytest.raises(RuntimeUnfit, match="or build for cu12"):
        check_driver((12, 9), locked_pack(b""))


def test_everything_that_lacks_is_said_at_once() -> None:
    needed = ("libkernelforge_a.so.1", "libkernelforge_b.so.1", "libtvm_ffi.so")
    answer = ask(f"print(json.dumps(attempt(needed={needed!r}, undefined=('kernelforgeAbsent', 'fopen'))))")
    assert "libkernelforge_a.so.1 cannot be opened" in answer
    assert "libkernelforge_b.so.1 cannot be opened" in answer
    assert "no library of this process has kernelforgeAbsent" in answer
    assert "apache-tvm-ffi 0." in answer


def test_a_runtime_that_only_a_wheel_has_is_found(tmp_path: Path) -> None:
    """NVIDIA's wheels install below site-packages/nvidia, where the dynamic linker never looks."""
    fake_library(tmp_path / "nvidia" / "cu13" / "lib" / "libkernelforge_wheel.so.1", "void kernelforgeFake(void) {}\n")
    changes = "needed=('libkernelforge_wheel.so.1',), undefined=('kernelforgeFake',)"
    code = f"""
before = attempt({changes})
sys.path.append(sys.argv[1])
print(json.dumps([before, attempt({changes})]))
"""
    before, after = ask(code, str(tmp_path))
    assert "libkernelforge_wheel.so.1 cannot be opened" in before
    assert after == "fit"


def test_the_runtime_of_another_cuda_version_is_refused(tmp_path: Path) -> None:
    """With torch for CUDA 12 in the process its functions would be found first, silently."""
    old = cuda_runtime(tmp_path / "libcudart.so.12", 12080)
    cuda_runtime(tmp_path / "libcudart.so.13", 13000)
    environment = {"LD_LIBRARY_PATH": str(tmp_path)}
    changes = "needed=('libcudart.so.13',), undefined=('cudaFake',)"
    assert ask(f"print(json.dumps(attempt({changes})))", environment=environment) == "fit"
    code = f"ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)\nprint(json.dumps(attempt({changes})))"
    answer = ask(code, str(old), environment=environment)
    assert "its CUDA runtime is that of CUDA 12" in answer
    assert "CUDA runtime 12.8" in answer


def test_a_runtime_that_does_not_tell_its_version_is_refused(tmp_path: Path) -> None:
    fake_library(tmp_path / "libcudart.so.13", "void cudaFake(void) {}\n")
    changes = "needed=('libcudart.so.13',), undefined=('cudaFake',)"
    answer = ask(f"print(json.dumps(attempt({changes})))", environment={"LD_LIBRARY_PATH": str(tmp_path)})
    assert "does not tell its version" in answer


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        ("TVMFFINotYetInvented", "the pack needs apache-tvm-ffi 0.1.99 or later, found 0."),
        ("CuteDSLRT_NotYetInvented", "the pack needs nvidia-cutlass-dsl-libs-cu13 4.8.1 or later, found"),
    ],
)
def test_a_symbol_of_a_newer_runtime_says_which_version_is_needed_and_which_was_found(symbol: str, words: str) -> None:
    """C7: the error of the dynamic linker names a function that nobody has heard of."""
    answer = ask(f"print(json.dumps(attempt(undefined=({symbol!r},))))")
    assert f"no library of this process has {symbol}" in answer
    assert words in answer


def test_a_symbol_of_unknown_origin_blames_nobody() -> None:
    answer = ask("print(json.dumps(attempt(undefined=('kernelforgeAbsent',))))")
    assert "or later, found" not in answer


def test_no_tvm_ffi() -> None:
    answer = ask("sys.modules['tvm_ffi'] = None\nprint(json.dumps(attempt()))")
    assert "pip install apache-tvm-ffi" in answer
