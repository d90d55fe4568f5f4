"""Compile keys out of documents: exactly the key that was written down, or an error that says what to do."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import pytest

from kernelforge.contract import JitKernel
from kernelforge.encoding import encode, fields_json
from kernelforge.errors import ContractError
from kernelforge.keys.rebuild import rebuild_key

HERE = __name__


class Mode(enum.Enum):
    FAST = 1


class Any1(JitKernel["Any1.CompileKey"]):
    @dataclass(frozen=True)
    class CompileKey:
        value: Any
        width: int = 32


class Picky(JitKernel["Picky.CompileKey"]):
    @dataclass(frozen=True)
    class CompileKey:
        width: int

        def __post_init__(self) -> None:
            if self.width > 64:
                raise ValueError("too wide")
            object.__setattr__(self, "width", max(self.width, 8))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, 0, 1, -7, 1 << 70, 0.0, -0.0, 1.0, 1e-6, float("inf"), float("-inf"), "", "bfloat16", "é"),
        *((), (1, 1.0, True, "1"), ((1, 2), (None,))),
    ],
)
def test_plain_values_come_back_as_they_were(value: object) -> None:
    """1, 1.0 and True are three keys."""
    key = Any1.CompileKey(value)
    rebuilt = rebuild_key(f"{HERE}:Any1", fields_json(key, where="key"))
    assert encode(rebuilt, where="key") == encode(key, where="key")


@pytest.mark.parametrize("value", [Mode.FAST, [1], b"x", {"a": 1}, frozenset({1}), Picky.CompileKey(32)])
def test_values_that_name_a_type_are_refused(value: object) -> None:
    with pytest.raises(ContractError, match=r"cannot be rebuilt.*add it to the manifest") as refusal:
        rebuild_key(f"{HERE}:Any1", fields_json(Any1.CompileKey(value), where="key"))
    assert refusal.value.where == f"{HERE}:Any1.CompileKey.value"


@pytest.mark.parametrize(
    ("kernel", "fields", "words"),
    [
        ("Any1", {"value": 1, "width": 32, "gone": 2}, "unexpected keyword argument 'gone'.*another version"),
        ("Any1", {"width": 32}, "missing.*'value'.*another version"),
        ("Any1", {"value": 1}, "it becomes.*another version"),
        ("Any1", {"value": 1, "width": 32.0}, "width is 32.0, a float, and is declared int"),
        ("Any1", {"value": 1, "width": True}, "width is True, a bool"),
        ("Picky", {"width": 96}, "too wide"),
        ("Picky", {"width": 4}, r'it becomes \{"width": 8\}, asked for \{"width": 4\}'),
        ("Absent", {}, "no class 'Absent'"),
    ],
)
def test_keys_of_another_version_are_refused(kernel: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ContractError, match=words):
        rebuild_key(f"{HERE}:{kernel}", fields)


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(ContractError, match="no module 'no_such_module'"):
        rebuild_key("no_such_module:K", {})
