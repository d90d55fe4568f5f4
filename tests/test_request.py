"""Kernel requests cross process borders as JSON: what comes out is what went in, types included."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernelforge.contract import Choices, IntRange
from kernelforge.errors import InputError
from kernelforge.request import KernelRequest

ARGUMENTS: dict[str, Any] = {
    "tokens": IntRange(1, 8193),
    "steps": IntRange(8, 249, 8),
    "dtype": Choices(("bfloat16", "float16")),
    "mixed": Choices((1, 1.0, True, "1", None)),
    "eps": 1e-6,
    "one": 1,
    "yes": True,
    "text": "1",
    "nothing": None,
}


def test_the_json_form_is_exact() -> None:
    """1, 1.0, True and "1" are four keys; a worker must expand the same ones as the planner."""
    request = KernelRequest("package.module:Kernel", ARGUMENTS, line=7, origins={"one": "somewhere"})
    back = KernelRequest.from_json(json.loads(json.dumps(request.to_json())))
    assert repr(dict(back.arguments)) == repr(dict(request.arguments))
    assert back == request
    assert (back.line, dict(back.origins)) == (0, {})


def test_arguments_are_sorted_and_read_only() -> None:
    request = KernelRequest("package.module:Kernel", {"b": 1, "a": 2})
    assert list(request.arguments) == ["a", "b"]
    with pytest.raises(TypeError):
        request.arguments["a"] = 3  # type: ignore[index]


@pytest.mark.parametrize("value", [[1], (1,), {"from": 1}, b"x", float("nan"), float("inf"), Choices(([1],)), object()])
def test_a_value_that_json_cannot_hold_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        KernelRequest("package.module:Kernel", {"axis": value})
    assert caught.value.where == "package.module:Kernel.axis"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kernel": "k"},
        {"kernel": "k", "arguments": []},
        {"kernel": "k", "arguments": {"a": {"range": {"start": 1}}}},
        {"kernel": "k", "arguments": {"a": {"range": {"start": 2, "stop": 1}}}},
        {"kernel": "k", "arguments": {"a": {"choices": []}}},
        {"kernel": "k", "arguments": {"a": {"other": 1}}},
        {"kernel": "k", "arguments": {"a": [1]}},
    ],
)
def test_json_of_another_form_is_refused(data: Any) -> None:
    with pytest.raises(InputError):
        KernelRequest.from_json(data)
