"""Dictionaries in which ``1``, ``1.0`` and ``True`` are three keys, and ``0.0`` and ``-0.0`` are two.

A look-up happens for every point of an expansion and for kernel calls with keys made anew, where the canonical bytes
(34 us for a key of 8 fields) cost more than ``dispatch`` or than the call itself (5 us). So keys are found by their
fields' values and exact types (0.6 us), and only where these decide as surely as the canonical bytes do. Knows nothing
of kernels.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, TypeVar

from kernelforge.encoding import encode, is_torch_dtype

ValueT = TypeVar("ValueT")

# Types whose equal values have equal canonical bytes, except for 0.0 and -0.0.
_EXACT = (bool, int, float, str, bytes, type(None))


class ExactMemo(Generic[ValueT]):
    """What was added for tuples of values."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], tuple[ValueT, tuple[int, ...]]] = {}

    def get(self, values: tuple[Any, ...]) -> ValueT | None:
        """What was added for this tuple, or None."""
        try:
            found = self._found.get((values, tuple(map(type, values))))
        except TypeError:  # a value that cannot be hashed, such as a list
            return None
        if found is None:
            return None
        for index in found[1]:
            if math.copysign(1.0, values[index]) < 0:
                return None
        return found[0]

    def add(self, values: tuple[Any, ...], value: ValueT) -> bool:
        """Remember ``value``; False if ``values`` cannot be told from others by what is kept, so that nothing is."""
        zeros = tuple(index for index, each in enumerate(values) if type(each) is float and each == 0)
        if not all(map(is_exact, values)) or any(math.copysign(1.0, values[index]) < 0 for index in zeros):
            return False
        self._found[values, tuple(map(type, values))] = value, zeros
        return True


class KeyMemo(Generic[ValueT]):
    """Values by compile keys of one key class."""

    def __init__(self, key_class: type) -> None:
        self._where = key_class.__qualname__
        self._fields = _field_reader(key_class)
        self._by_fields: ExactMemo[ValueT] = ExactMemo()
        self._by_bytes: dict[bytes, ValueT] = {}

    def get(self, key: Any) -> ValueT | None:
        """The value that was added for this key, or None."""
        found = self._by_fields.get(self._fields(key))
        if found is not None or not self._by_bytes:
            return found
        return self._by_bytes.get(encode(key, where=self._where))

    def add(self, key: Any, value: ValueT) -> None:
        """Remember ``value`` for ``key``; ``EncodingError`` if it can only be told apart by bytes that it lacks."""
        if not self._by_fields.add(self._fields(key), value):
            self._by_bytes[encode(key, where=self._where)] = value


def is_exact(value: object) -> bool:
    """Whether values of its type are equal only where their canonical bytes are, except for 0.0 and -0.0."""
    # Members of an enum are single objects, and so are the dtypes of torch.
    return type(value) in _EXACT or isinstance(value, enum.Enum) or is_torch_dtype(value)


def _field_reader(key_class: type) -> Callable[[Any], tuple[Any, ...]]:
    names = [field.name for field in dataclasses.fields(key_class)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda key: tuple(getattr(key, name) for name in names)
