"""Canonical bytes of a value: equal values of equal types give equal bytes, in every process and Python version.

Compile keys are told apart, digested and looked up by these bytes, never by ``==``, ``hash`` or ``repr``: ``1``,
``1.0``, ``True`` and ``"1"`` are four values, and an object whose repr holds an address has no encoding at all, which
is an error that names the field. The second half is the JSON form of the same values, for lockfiles and people. This
module knows nothing of kernels.

Format: ``<tag><length of payload>:<payload>``, payloads of containers being their encoded members one after the other.
Mappings, sets and dataclass fields are sorted by encoded bytes.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping
from typing import Any

from kernelforge.errors import EncodingError

ENCODING_VERSION = 1


def encode(value: object, *, where: str) -> bytes:
    """Canonical bytes of ``value``; ``EncodingError`` names ``where`` extended by the field that has none."""
    if value is None:
        return _frame("n", b"")
    if isinstance(value, enum.Enum):
        return _frame("e", encode(_member_name(value), where=where) + encode(value.value, where=where))
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        return _frame(*scalar(value, where))
    container = _CONTAINERS.get(type(value))
    if container is not None:
        return _frame(*container(value, where))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _frame("k", _dataclass_payload(value, where))
    if is_torch_dtype(value):
        return _frame("y", str(value).encode())
    raise _no_encoding(value, where)


def labelled(fields: Mapping[str, object], *, where: str) -> bytes:
    """Canonical bytes of named values: the form in which everything that is digested is written."""
    return encode(dict(fields), where=where)


def json_form(value: object, *, where: str) -> Any:
    """A JSON value that tells apart whatever ``encode`` tells apart; what JSON lacks is an object with one tag."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, enum.Enum):
        return {"enum": _member_name(value), "value": json_form(value.value, where=where)}
    if isinstance(value, (tuple, list)):
        return {type(value).__name__: [json_form(item, where=where) for item in value]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, (set, frozenset)):
        return {type(value).__name__: [json_form(item, where=where) for item in _sorted(value, where)]}
    if isinstance(value, Mapping):
        return {
            "map": [[json_form(key, where=where), json_form(value[key], where=where)] for key in _sorted(value, where)]
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"dataclass": type(value).__qualname__, "fields": fields_json(value, where=where)}
    if is_torch_dtype(value):
        return {"dtype": str(value)}
    raise _no_encoding(value, where)


def fields_json(instance: Any, *, where: str) -> dict[str, Any]:
    """The JSON form of a dataclass instance's fields, in the order of their names."""
    names = sorted(field.name for field in dataclasses.fields(instance))
    return {name: json_form(getattr(instance, name), where=f"{where}.{name}") for name in names}


def _member_name(member: enum.Enum) -> str:
    kind = type(member).__qualname__
    # Flags that are combined have no name in Python 3.10 and one since; their value says it all.
    return kind if isinstance(member, enum.Flag) else f"{kind}.{member.name}"


def _frame(tag: str, payload: bytes) -> bytes:
    return f"{tag}{len(payload)}:".encode() + payload


def _int(value: Any, where: str) -> tuple[str, bytes]:
    return "i", str(value).encode()


def _bool(value: Any, where: str) -> tuple[str, bytes]:
    return "b", b"1" if value else b"0"


def _float(value: Any, where: str) -> tuple[str, bytes]:
    if math.isnan(value):
        raise EncodingError("nan has no stable identity", hint="use None or a flag for 'not given'", where=where)
    # hex() is exact and the same on every platform; it keeps the sign of zero.
    return "f", value.hex().encode()


def _str(value: Any, where: str) -> tuple[str, bytes]:
    return "s", value.encode("utf-8", "surrogatepass")


def _bytes(value: Any, where: str) -> tuple[str, bytes]:
    return "x", value


def _sequence(tag: str) -> Callable[[Any, str], tuple[str, bytes]]:
    def payload(value: Any, where: str) -> tuple[str, bytes]:
        return tag, b"".join(encode(item, where=f"{where}[{index}]") for index, item in enumerate(value))

    return payload


def _mapping(value: Any, where: str) -> tuple[str, bytes]:
    pairs = [(encode(key, where=where), encode(item, where=f"{where}.{key}")) for key, item in value.items()]
    return "d", b"".join(key + item for key, item in sorted(pairs))


def _set(tag: str) -> Callable[[Any, str], tuple[str, bytes]]:
    def payload(value: Any, where: str) -> tuple[str, bytes]:
        return tag, b"".join(sorted(encode(item, where=where) for item in value))

    return payload


def _dataclass_payload(value: Any, where: str) -> bytes:
    kind = type(value)
    if not kind.__dataclass_params__.frozen:
        raise EncodingError(
            f"{kind.__qualname__} can change after its key was made",
            hint="declare it @dataclass(frozen=True)",
            where=where,
        )
    pairs = [
        (encode(field.name, where=where), encode(getattr(value, field.name), where=f"{where}.{field.name}"))
        for field in dataclasses.fields(value)
    ]
    return encode(kind.__qualname__, where=where) + b"".join(name + item for name, item in sorted(pairs))


_SCALARS: dict[type, Callable[[Any, str], tuple[str, bytes]]] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    bytes: _bytes,
}
_CONTAINERS: dict[type, Callable[[Any, str], tuple[str, bytes]]] = {
    tuple: _sequence("t"),
    list: _sequence("l"),
    dict: _mapping,
    set: _set("u"),
    frozenset: _set("z"),
}


def _sorted(values: Any, where: str) -> list[Any]:
    return sorted(values, key=lambda item: encode(item, where=where))


def is_torch_dtype(value: object) -> bool:
    """By name: this leaf must not import torch, and vLLM's compile keys hold ``torch.dtype`` values."""
    return type(value).__module__ == "torch" and type(value).__name__ == "dtype"


def _no_encoding(value: object, where: str) -> EncodingError:
    return EncodingError(
        f"a {type(value).__module__}.{type(value).__qualname__} has no stable encoding",
        hint="use None, bool, int, float, str, bytes, an enum, a tuple or a frozen dataclass of these",
        where=where,
    )
