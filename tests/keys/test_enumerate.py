"""Requests become keys, or errors that say which kernel and argument is wrong and what to write instead."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelforge.contract import Choices, IntRange
from kernelforge.device import DeviceProfile, Fact
from kernelforge.errors import ContractError, EncodingError, OutOfBounds, UnknownFact
from kernelforge.keys.enumerate import enumerate_keys, import_kernel
from kernelforge.request import KernelRequest
from tests.keys.golden import KERNEL

PROFILE = DeviceProfile("h200-sxm", "sm_90a", {"num_sms": Fact(132, "measured")})
SAMPLE = """
from dataclasses import dataclass
from typing import Any
from kernelforge.contract import JitKernel

class K(JitKernel):
    @dataclass(frozen=True)
    class CompileKey:
        tile: int
        full: bool = True
        scale: float = 1.0
        name: str = "a"
        anything: Any = None

    def dispatch(self, *, tokens: int, anything=None):
        return self.CompileKey(tile=tokens, anything=anything)
"""


def write_sample(folder: Path, text: str) -> None:
    (folder / "sample.py").write_text(text)
    sys.modules.pop("sample", None)
    importlib.invalidate_caches()


def enumerate_sample(**arguments: Any) -> Any:
    return enumerate_keys(KernelRequest("sample:K", arguments), PROFILE)


def test_points_fall_into_few_keys(family: Path) -> None:
    """Case H3: 30 minutes of warm-up over shapes that fall into a fortieth as many kernels."""
    found = enumerate_keys(KernelRequest(KERNEL, {"tokens": IntRange(1, 97)}), PROFILE)
    assert (found.points, len(found.keys)) == (96, 46)


def test_only_the_kernel_class_is_imported(family: Path) -> None:
    """The device module needs the compiler; planning must not."""
    enumerate_keys(KernelRequest(KERNEL, {"tokens": 1}), PROFILE)
    assert "fakekernels.scale" in sys.modules
    assert "fakekernels.scale_device" not in sys.modules


@pytest.mark.parametrize(
    ("kernel", "problem", "hint"),
    [
        ("fakekernels.scale:Scala", "no class 'Scala'", "did you mean 'Scale'"),
        ("fakekernels.scale:Swizzle", "not a kernel class", "JitKernel"),
        ("fakekernels.scale:STAGES", "no class 'STAGES'", "Scale"),
        ("fakekernels.scales:Scale", "no module 'fakekernels.scales'", "check the name"),
        ("fakekernel.scale:Scale", "no module 'fakekernel'", "check the name"),
        ("fakekernels.scale_device:ScaleDevice", "needs 'a_compiler_that_is_not_installed'", "install"),
        ("fakekernels.scale", "does not name a kernel", "module:ClassName"),
        (":Scale", "does not name a kernel", "module:ClassName"),
    ],
)
def test_wrong_kernel_names(family: Path, kernel: str, problem: str, hint: str) -> None:
    """A typo, a module that is not there and one that lacks a library are three different mistakes."""
    with pytest.raises(ContractError, match=problem) as caught:
        import_kernel(kernel)
    assert hint in caught.value.hint


def test_module_that_fails_on_import_names_its_line(family: Path) -> None:
    """A kernel module that asks the driver at import fails on every machine without a GPU."""
    write_sample(family, "\n\nraise RuntimeError('no driver')\n")
    with pytest.raises(ContractError, match="no driver") as caught:
        import_kernel("sample:K")
    assert caught.value.where.endswith("sample.py:3")


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        ({"tokns": 1}, "no argument 'tokns'", "did you mean 'tokens'"),
        ({"tokens": 1, "depth": 2}, "no argument 'depth'", "known: tokens, anything"),
        ({}, "needs the argument 'tokens'", "tokens, anything"),
    ],
)
def test_wrong_arguments(family: Path, arguments: dict[str, Any], problem: str, hint: str) -> None:
    """A TypeError of Python's names neither the kernel nor the manifest's mistake."""
    write_sample(family, SAMPLE)
    with pytest.raises(ContractError, match=problem) as caught:
        enumerate_sample(**arguments)
    assert hint in caught.value.hint
    assert "sample:K" in caught.value.problem


def test_arguments_of_an_own_get_warmup_keys(family: Path) -> None:
    """Adopted classes take other arguments than the axes of their dispatch."""
    own = "    def get_warmup_keys(self, max_tokens):\n        return [self.dispatch(tokens=t) for t in (1, 2, 1)]\n"
    write_sample(family, SAMPLE + own)
    found = enumerate_sample(max_tokens=2)
    assert [key.tile for key in found.keys] == [1, 2]
    assert found.points == 3
    with pytest.raises(ContractError, match="no argument 'tokens'"):
        enumerate_sample(tokens=2)


@pytest.mark.parametrize(
    ("made", "field"),
    [
        ("tile=True", "tile"),
        ("tile=1.0", "tile"),
        ("tile='1'", "tile"),
        ("tile=1, full=1", "full"),
        ("tile=1, scale=1", "scale"),
        ("tile=1, name=b'a'", "name"),
    ],
)
def test_values_have_the_type_that_the_field_declares(family: Path, made: str, field: str) -> None:
    """`1`, `1.0` and `True` are three keys: one of them would never be asked for."""
    write_sample(family, SAMPLE.replace("tile=tokens, anything=anything", made))
    with pytest.raises(ContractError) as caught:
        enumerate_sample(tokens=1)
    assert caught.value.where == f"sample:K.CompileKey.{field}"


def test_quoted_annotations_are_checked_too(family: Path) -> None:
    """With `from __future__ import annotations` the declared types are text."""
    text = "from __future__ import annotations\n" + SAMPLE.replace("tile=tokens,", "tile=float(tokens),")
    write_sample(family, text)
    with pytest.raises(ContractError, match="declared int"):
        enumerate_sample(tokens=1)


def test_value_without_an_encoding(family: Path) -> None:
    """Case B1, at plan and not at the first miss."""
    write_sample(family, SAMPLE.replace("anything=anything", "anything=object()"))
    with pytest.raises(EncodingError) as caught:
        enumerate_sample(tokens=1)
    assert caught.value.where.endswith("K.CompileKey.anything")


@pytest.mark.parametrize(
    ("decorator", "made", "problem"),
    [
        ("    @dataclass\n", "self.CompileKey(1)", "not a frozen dataclass"),
        ("", "self.CompileKey()", "not a frozen dataclass"),
        ("    @dataclass(frozen=True)\n", "1", "made a int"),
        ("    @dataclass(frozen=True)\n", "None", "made a NoneType"),
    ],
)
def test_keys_must_be_of_the_class_itself(family: Path, decorator: str, made: str, problem: str) -> None:
    """A key that can change, or of another class, could never be found again."""
    own = f"    def get_warmup_keys(self):\n        return [{made}]\n"
    write_sample(family, SAMPLE.replace("    @dataclass(frozen=True)\n", decorator) + own)
    with pytest.raises(ContractError, match=problem):
        enumerate_sample()


def test_failure_inside_dispatch_names_kernel_and_line(family: Path) -> None:
    """Arithmetic that fails for one token count must not look like a fault of the planner."""
    write_sample(family, SAMPLE.replace("tile=tokens", "tile=1 // tokens"))
    with pytest.raises(ContractError, match="ZeroDivisionError") as caught:
        enumerate_sample(tokens=IntRange(0, 3))
    assert "sample:K" in caught.value.problem
    assert "sample.py:" in caught.value.where


def test_errors_of_the_contract_pass_through(family: Path) -> None:
    """Bounds and missing device facts have errors of their own, with their own hints."""
    write_sample(family, SAMPLE.replace("    def dispatch", "    bounds = {'tokens': (1, 4)}\n\n    def dispatch"))
    with pytest.raises(OutOfBounds):
        enumerate_sample(tokens=IntRange(1, 6))
    write_sample(family, SAMPLE.replace("tile=tokens", "tile=self.device.l2_bytes"))
    with pytest.raises(UnknownFact, match="l2_bytes"):
        enumerate_sample(tokens=1)


def test_a_dtype_that_the_kernel_does_not_support(family: Path) -> None:
    """Case A4: float16 asked of a bfloat16 kernel built a wrong binary."""
    with pytest.raises(OutOfBounds, match="float16") as caught:
        enumerate_keys(KernelRequest(KERNEL, {"tokens": 1, "dtype": "float16"}), PROFILE)
    assert "bfloat16" in caught.value.hint
    assert caught.value.where == f"{KERNEL}.dtype"


def test_choices_and_ranges_multiply(family: Path) -> None:
    """Every combination is a point; order of arguments does not change the keys."""
    write_sample(family, SAMPLE)
    found = enumerate_sample(tokens=IntRange(1, 4), anything=Choices(("x", None)))
    turned = enumerate_sample(anything=Choices(("x", None)), tokens=IntRange(1, 4))
    assert found == turned
    assert (found.points, len(found.keys)) == (6, 6)


def test_no_keys_is_an_error(family: Path) -> None:
    """A kernel that a manifest names and nothing is built for is missing in the pod."""
    write_sample(family, SAMPLE + "    def get_warmup_keys(self):\n        return []\n")
    with pytest.raises(ContractError, match="asks for no keys"):
        enumerate_sample()
