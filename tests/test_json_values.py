"""Reading JSON without coercion: what `json` and Python's constructors forgive changes a document's meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from kernelforge import json_values
from kernelforge.digest import Digest

POINT = {"x": json_values.integer, "names": json_values.items(json_values.text)}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"a": 1, "a": 2}', "a member appears twice"),
        (b'[{"a": {"b": 1, "b": 1}}]', "a member appears twice"),
        (b"NaN", "NaN is not a number"),
        (b"-Infinity", "-Infinity is not a number"),
        (b"[1e400]", "1e400 is not a number"),
        (b"[" * 100_000, "nested too deeply"),
        (b'"\xff"', "utf-8"),
        (b"\xff\xfe{\x00}\x00", "utf-8"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"{} {}", "Extra data"),
        (b"", "Expecting value"),
    ],
)
def test_bytes_with_more_than_one_meaning_are_refused(data: bytes, problem: str) -> None:
    """Two readers of a lockfile must not see two lockfiles."""
    with pytest.raises(ValueError, match=problem):
        json_values.parse(data)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (json_values.integer, True),
        (json_values.integer, 1.0),
        (json_values.integer, "1"),
        (json_values.text, 1),
        (json_values.text, None),
        (json_values.mapping, []),
        (json_values.items(json_values.text), "ab"),
        (json_values.items(json_values.text), {"a": 1}),
        (json_values.values(json_values.text), [["a", "b"]]),
    ],
)
def test_nothing_is_converted(read: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(ValueError, match="is not a"):
        read(value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"x": 1}, "names is missing"),
        ({"x": 1, "names": [], "y": 2, "z": 3}, "no member y; no member z"),
        ({"x": 1, "names": ["a", 2]}, "names: [1]: 2 is not a string"),
        ({"x": 1.5, "names": []}, "x: 1.5 is not an integer"),
        ({"x": "9" * 1000, "names": []}, f"x: '{'9' * 59}... is not an integer"),
    ],
)
def test_an_error_says_where_and_stays_short(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        json_values.members(value, POINT)


def test_values_with_errors_of_their_own_are_placed_too() -> None:
    with pytest.raises(ValueError, match=r"^digest: 'abc' is not a digest$"):
        json_values.members({"digest": "abc"}, {"digest": Digest.parse})


def test_good_documents_are_read() -> None:
    document = json_values.parse('{"x": 1, "names": ["é", ""]}'.encode())
    assert json_values.members(document, POINT) == {"x": 1, "names": ("é", "")}
