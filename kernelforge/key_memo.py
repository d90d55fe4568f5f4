"""A dictionary from compile keys to values in which ``1``, ``1.0`` and ``True`` are three keys.

A look-up happens at every kernel call and for every point of an expansion, where the canonical bytes (34 us for a key
of 8 fields) cost more than the call itself (5 us) or than ``dispatch``. So keys are found by their fields' values and
exact types (0.9 us), and only where these decide as surely as the canonical bytes do. Knows nothing of kernels.
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


class KeyMemo(Generic[ValueT]):
    """Values by compile keys of one key class."""

    def __init__(self, key_class: type) -> None:
        self._where = key_class.__qualname__
        self._fields = _field_reader(key_class)
        self._by_fields: dict[tuple[Any, ...], tuple[ValueT, tuple[int, ...]]] = {}
        self._by_bytes: dict[bytes, ValueT] = {}

    def get(self, key: Any) -> ValueT | None:
        """The value that was added for this key, or None."""
        fields = self._fields(key)
        try:
            found = self._by_fields.get((fields, tuple(map(type, fields))))
        except TypeError:  # a field that cannot be hashed, such as a list
            found = None
        if found is not None:
            value, zeros = found
            for index in zeros:
                if math.copysign(1.0, fields[index]) < 0:
                    break
            else:
                return value
        return self._by_bytes.get(encode(key, where=self._where)) if self._by_bytes else None

    def add(self, key: Any, value: ValueT) -> None:
        """Remember ``value`` for ``key``; ``EncodingError`` if it can only be told apart by bytes that it lacks."""
        fields = self._fields(key)
        zeros = tuple(index for index, field in enumerate(fields) if type(field) is float and field == 0)
        if all(map(_is_exact, fields)) and not any(math.copysign(1.0, fields[index]) < 0 for index in zeros):
            self._by_fields[fields, tuple(map(type, fields))] = value, zeros
        else:
            self._by_bytes[encode(key, where=self._where)] = value


def _is_exact(value: object) -> bool:
    # Members of an enum are single objects, and so are the dtypes of torch.
    return type(value) in _EXACT or isinstance(value, enum.Enum) or is_torch_dtype(value)


def _field_reader(key_class: type) -> Callable[[Any], tuple[Any, ...]]:
    names = [field.name for field in dataclasses.fields(key_class)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda key: tuple(getattr(key, name) for name in names)
