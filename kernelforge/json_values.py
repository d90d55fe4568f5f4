"""JSON read strictly, for documents that decide something: no repeated members, no coercion, finite numbers.

``json.loads`` takes the last of two equal names (what a badly resolved merge leaves behind), and ``int("1")`` or
``int(True)`` turn one document into another. Every function here returns what it was asked for or raises
``ValueError`` with what it found; the caller knows file and schema, and says where.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from kernelforge.errors import InputError


def parse(data: bytes) -> Any:
    """The value in ``data``, which is UTF-8."""
    try:
        # Decoded here: from bytes, json.loads would take UTF-16 and UTF-32 as well.
        return json.loads(
            data.decode(), object_pairs_hook=_without_repeats, parse_float=_finite, parse_constant=_finite
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def mapping(value: Any) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise ValueError(f"{_short(value)} is not an object")
    return value


def members(value: Any, readers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """An object with exactly these members, each read by its reader; an error names the member that it is in."""
    found = mapping(value)
    if found.keys() != readers.keys():
        missing = sorted(readers.keys() - found.keys())
        unknown = sorted(found.keys() - readers.keys())
        raise ValueError(
            "; ".join([f"{name} is missing" for name in missing] + [f"no member {name}" for name in unknown])
        )
    # Loops instead of a function for each item, here and below: that halves what a pod's start spends on a lockfile.
    result = {}
    for name, read in readers.items():
        try:
            result[name] = read(found[name])
        except (ValueError, InputError) as error:
            raise _inside(name, error) from error
    return result


def values(read: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """Reader of an object of any members, each read by ``read``."""

    def read_all(value: Any) -> dict[str, Any]:
        result = {}
        for name, item in mapping(value).items():
            try:
                result[name] = read(item)
            except (ValueError, InputError) as error:
                raise _inside(name, error) from error
        return result

    return read_all


def items(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Reader of a list whose items are read by ``read``."""

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"{_short(value)} is not a list")
        result = []
        for index, item in enumerate(value):
            try:
                result.append(read(item))
            except (ValueError, InputError) as error:
                raise _inside(f"[{index}]", error) from error
        return tuple(result)

    return read_all


def text(value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ValueError(f"{_short(value)} is not a string")
    return value


def integer(value: Any) -> int:
    """An integer; ``true`` and ``1.0`` are none."""
    if type(value) is not int:
        raise ValueError(f"{_short(value)} is not an integer")
    return value


def _inside(name: str, error: ValueError | InputError) -> ValueError:
    # An InputError is what a value such as a digest or a target says of itself.
    return ValueError(f"{name}: {error.problem if isinstance(error, InputError) else error}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member appears twice")
    return found


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not a number that JSON can hold")
    return value


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
