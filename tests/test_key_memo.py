"""Compile keys that Python calls equal are different keys."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelforge.encoding import encode
from kernelforge.errors import EncodingError
from kernelforge.key_memo import KeyMemo


@dataclass(frozen=True)
class Key:
    value: Any
    name: str = "x"


class Level(enum.IntEnum):
    ONE = 1


@dataclass(frozen=True)
class Inner:
    value: Any


LOOK_ALIKES = [1, 1.0, True, "1", b"1", Level.ONE, (1,), (True,), (1.0,), [1], [True], Inner(1), Inner(True), None]
ZEROS = [0, 0.0, -0.0, False, "", (0.0,), (-0.0,), Inner(0.0), Inner(-0.0), [0.0], [-0.0]]


@pytest.mark.parametrize("values", [LOOK_ALIKES, ZEROS], ids=["ones", "zeros"])
def test_look_alikes_find_only_themselves(values: list[Any]) -> None:
    for stored in range(len(values)):
        memo: KeyMemo[int] = KeyMemo(Key)
        memo.add(Key(values[stored]), stored)
        found = [index for index in range(len(values)) if memo.get(Key(values[index])) is not None]
        assert found == [stored]


@pytest.mark.parametrize("values", [LOOK_ALIKES, ZEROS], ids=["ones", "zeros"])
def test_look_alikes_live_side_by_side(values: list[Any]) -> None:
    memo: KeyMemo[int] = KeyMemo(Key)
    for index, value in enumerate(values):
        memo.add(Key(value), index)
    assert [memo.get(Key(value)) for value in values] == list(range(len(values)))


_SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.sampled_from(["", "1", "True"])
_VALUES = st.recursive(_SCALARS, lambda inner: st.tuples(inner) | st.lists(inner, max_size=2), max_leaves=3)


@given(_VALUES, _VALUES)
def test_a_key_finds_another_exactly_if_their_canonical_bytes_are_equal(stored: Any, asked: Any) -> None:
    memo: KeyMemo[str] = KeyMemo(Key)
    memo.add(Key(stored), "found")
    is_same = encode(Key(stored), where="stored") == encode(Key(asked), where="asked")
    assert (memo.get(Key(asked)) == "found") == is_same


def test_keys_with_one_field_and_with_none() -> None:
    @dataclass(frozen=True)
    class Empty:
        pass

    memo: KeyMemo[str] = KeyMemo(Empty)
    memo.add(Empty(), "found")
    assert memo.get(Empty()) == "found"
    single: KeyMemo[str] = KeyMemo(Inner)
    single.add(Inner(1), "found")
    assert single.get(Inner(1)) == "found"
    assert single.get(Inner(True)) is None


def test_a_key_without_canonical_bytes_is_refused_by_name() -> None:
    memo: KeyMemo[int] = KeyMemo(Key)
    with pytest.raises(EncodingError, match=r"Key\.value"):
        memo.add(Key(object()), 1)
