"""Canonical bytes decide which key is which: what differs must differ, what is equal must be equal, for ever."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelforge.encoding import encode, fields_json, json_form, labelled
from kernelforge.errors import EncodingError
from tests.loader.python_process import run_python


class Order(enum.Enum):
    ROW = 1
    COLUMN = 2


class Layout(enum.Enum):
    ROW = 1


class Level(enum.IntEnum):
    TWO = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Unstable(enum.Enum):
    PLAIN = object()


@dataclass(frozen=True)
class Swizzle:
    bits: Any
    base: Any = 0


@dataclass(frozen=True)
class Shift:
    bits: Any
    base: Any = 0


@dataclass
class Mutable:
    bits: int = 1


Point = namedtuple("Point", "x y")

# Case A3: each of these is another key. All pairs must differ, in bytes and in JSON form.
DIFFERENT = [
    *(None, False, True, 0, 1, 2, 4, -1, 2**80),
    *(0.0, -0.0, 1.0, 2.0, 5e-324, math.inf, -math.inf, 1e-6, 1.0000000000000002e-6),
    *("", "1", "1.0", "True", "None", "a", "a ", "A", "\ud800", "é", "e\u0301"),
    *(b"", b"1", b"a"),
    *((), (1,), (1.0,), (True,), ("1",), (1, 2), (2, 1), ((1,), 2), (1, (2,)), ((1, 2),), (None,)),
    *([], [1], [1, 2], [[1], 2], [(1,)], ([1],)),
    *({}, {"a": 1}, {"a": 1.0}, {"a": True}, {"b": 1}, {1: "a"}, {"1": "a"}, {"a": {"b": 1}}, {"a": 1, "b": 2}),
    *(set(), {1}, {1.0}, {"1"}, {1, 2}, frozenset(), frozenset({1}), frozenset({1, 2})),
    *(Order.ROW, Order.COLUMN, Layout.ROW, Level.TWO, Access.READ, Access.WRITE, Access.READ | Access.WRITE),
    *(
        Swizzle(1),
        Swizzle(1.0),
        Swizzle(1, 1),
        Swizzle(0, 1),
        Shift(1),
        Swizzle(Swizzle(1)),
        Swizzle((1, 0)),
        Swizzle({}),
    ),
    *(torch.bfloat16, torch.float16, "torch.bfloat16", "bfloat16"),
]


def bytes_of(value: Any) -> bytes:
    return encode(value, where="key")


def json_text_of(value: Any) -> str:
    return json.dumps(json_form(value, where="key"), sort_keys=True, allow_nan=False)


@pytest.mark.parametrize("written", [bytes_of, json_text_of])
def test_must_differ(written: Any) -> None:
    for one, other in itertools.combinations(DIFFERENT, 2):
        assert written(one) != written(other), f"{one!r} and {other!r}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1, 2, 3}, {3, 2, 1}),
        (frozenset("abc"), frozenset("cba")),
        (Swizzle(bits=1, base=2), Swizzle(base=2, bits=1)),
        (make_dataclass("K", ["a", "b"], frozen=True)(1, 2), make_dataclass("K", ["b", "a"], frozen=True)(2, 1)),
        (make_dataclass("K", ["a"], frozen=True)(1), make_dataclass("K", ["a"], frozen=True, slots=True)(1)),
        (int("257"), int("257")),
        (float("0.1"), 0.1),
        (Order(1), Order.ROW),
        (torch.bfloat16, torch.zeros(1, dtype=torch.bfloat16).dtype),
    ],
    ids=["dict", "set", "frozenset", "dataclass", "order of fields", "slots", "int", "float", "enum", "dtype"],
)
def test_must_be_equal(one: Any, other: Any) -> None:
    assert bytes_of(one) == bytes_of(other)
    assert json_text_of(one) == json_text_of(other)


def is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


HASHABLE = st.recursive(
    st.sampled_from([value for value in DIFFERENT if is_hashable(value)]),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.builds(Swizzle, inner, inner) | st.frozensets(inner),
    max_leaves=4,
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HASHABLE, inner, max_size=3) | st.builds(Shift, inner),
    max_leaves=6,
)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_the_json_form_tells_apart_what_bytes_tell_apart(one: Any, other: Any) -> None:
    """Lockfiles and explanations hold the JSON form: two keys that look alike there could not be told apart."""
    assert (bytes_of(one) == bytes_of(other)) == (json_text_of(one) == json_text_of(other))


@settings(deadline=None)
@given(st.lists(st.text(alphabet="s1:2t0", max_size=6), max_size=4), st.lists(st.text(alphabet="s1:2t0"), max_size=4))
def test_members_cannot_run_into_each_other(one: list[str], other: list[str]) -> None:
    """Without length prefixes ("ab", "c") and ("a", "bc") would be one key; members here look like frames."""
    assert (bytes_of(tuple(one)) == bytes_of(tuple(other))) == (one == other)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (object(), "key"),
        (len, "key"),
        (int, "key"),
        (Swizzle, "key"),
        (1j, "key"),
        (bytearray(b"x"), "key"),
        (range(3), "key"),
        (math.nan, "key"),
        (numpy.int64(1), "key"),
        (numpy.float64(1), "key"),
        (numpy.array([1]), "key"),
        (torch.zeros(1), "key"),
        (torch.Size([1]), "key"),
        (OrderedDict(a=1), "key"),
        (Point(1, 2), "key"),
        (type("Text", (str,), {})("a"), "key"),
        (type("Number", (int,), {})(1), "key"),
        (Mutable(), "key"),
        (Unstable.PLAIN, "key"),
        (Swizzle(object()), "key.bits"),
        (Swizzle(1, math.nan), "key.base"),
        (Swizzle((1, [object()])), "key.bits[1][0]"),
        (Swizzle({"stages": object()}), "key.bits.stages"),
        (Swizzle(Swizzle(Mutable())), "key.bits.bits"),
        ((1, object()), "key[1]"),
        ({object()}, "key"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else type(value).__name__,
)
def test_a_value_without_a_stable_encoding_names_its_field(value: Any, where: str) -> None:
    """Case B1: a repr with an address in it made every process miss; a subclass may compare and print as it likes."""
    with pytest.raises(EncodingError) as caught:
        encode(value, where="key")
    assert caught.value.where == where
    assert caught.value.hint


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, b"n0:"),
        (True, b"b1:1"),
        (1, b"i1:1"),
        (-17, b"i3:-17"),
        (1.0, b"f20:0x1.0000000000000p+0"),
        (-0.0, b"f9:-0x0.0p+0"),
        (math.inf, b"f3:inf"),
        ("é", b"s2:\xc3\xa9"),
        (b"\x00", b"x1:\x00"),
        ((1, "a"), b"t8:i1:1s1:a"),
        ([1], b"l4:i1:1"),
        ({"b": 1, "a": 2}, b"d16:s1:ai1:2s1:bi1:1"),
        ({2, 1}, b"u8:i1:1i1:2"),
        (frozenset({1}), b"z4:i1:1"),
        (Order.ROW, b"e16:s9:Order.ROWi1:1"),
        (Access.READ | Access.WRITE, b"e13:s6:Accessi1:3"),
        (torch.bfloat16, b"y14:torch.bfloat16"),
        (Swizzle(3), b"k32:s7:Swizzles4:basei1:0s4:bitsi1:3"),
    ],
    ids=str,
)
def test_bytes_are_frozen(value: Any, expected: bytes) -> None:
    """Case B10: whoever changes these loses every object in every store, so the key schema must change with them."""
    assert bytes_of(value) == expected


def test_named_values_are_labelled() -> None:
    assert (
        labelled({"b": 1, "a": (2,)}, where="x")
        == labelled({"a": (2,), "b": 1}, where="x")
        == b"d19:s1:at4:i1:2s1:bi1:1"
    )


def test_the_hash_seed_does_not_reach_the_bytes() -> None:
    """Case B3: sets and dictionaries come in another order in every process."""
    code = "print(encode((set('abcdefgh'), {c: c for c in set('abcdefgh')}), where='x').hex())"
    seen = {
        run_python(f"from kernelforge.encoding import encode; {code}", environment={"PYTHONHASHSEED": seed})
        for seed in ("0", "1", "random")
    }
    assert len(seen) == 1


def test_json_of_fields_is_for_people() -> None:
    """Plain values stay plain, so that a lockfile's diff can be read; sorted by name, whatever the class says."""
    key = make_dataclass("CompileKey", [("tile", int), ("dtype", str), ("eps", float), ("shape", tuple)], frozen=True)
    form = fields_json(key(4, "bfloat16", 1e-6, (1, 2)), where="key")
    assert list(form.items()) == [("dtype", "bfloat16"), ("eps", 1e-6), ("shape", {"tuple": [1, 2]}), ("tile", 4)]


def test_fields_that_comparison_leaves_out_are_in_the_key() -> None:
    """Case A2: no hand-picked list of fields; `compare=False` must not hide one."""
    kind = make_dataclass("K", [("a", int, dataclasses.field(compare=False, repr=False))], frozen=True)
    assert kind(1) == kind(2)
    assert bytes_of(kind(1)) != bytes_of(kind(2))
