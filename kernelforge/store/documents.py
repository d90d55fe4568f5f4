"""JSON documents as bytes: one spelling for each value, strict reading.

Knows no schema but its name: what the members mean is for those who read them.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from kernelforge.errors import EncodingError, FormatUnknown, ObjectCorrupt

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def to_bytes(document: dict[str, Json], *, where: str) -> bytes:
    """UTF-8, sorted members, no spaces, a final newline.

    ``EncodingError`` for what JSON would quietly turn into something else: tuples, keys that are not strings, NaN.
    """
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        data = (text + "\n").encode()
        is_faithful = json.loads(text) == document
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodingError(f"not a JSON value: {error}", hint=_HINT, where=where) from error
    if not is_faithful:
        raise EncodingError("JSON would change this value", hint=_HINT, where=where)
    return data


def from_bytes(data: bytes, *, schema: str, where: str) -> dict[str, Any]:
    """The object in ``data``, whose member ``schema`` is ``schema`` (``kernelforge.<kind>/<major>``).

    ``FormatUnknown`` for another major version of it; ``ObjectCorrupt`` for whatever else it may be.
    """
    try:
        document = json.loads(data.decode(), object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _corrupt(f"not a JSON document: {error}", where) from error
    found = document.get("schema") if isinstance(document, dict) else None
    if found != schema:
        kind = schema.rpartition("/")[0]
        if isinstance(found, str) and found.rpartition("/")[0] == kind:
            hint = "update kernelforge, or use another store"
            raise FormatUnknown(f"has the format {found}, this version reads {schema}", hint=hint, where=where)
        raise _corrupt(f"schema is {found!r} instead of {schema!r}", where)
    assert isinstance(document, dict)
    return document


_HINT = "use objects with string keys, lists, strings, finite numbers, booleans and null"


def _without_repeats(members: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(members)
    if len(document) != len(members):
        raise ValueError("a member appears twice")
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _corrupt(problem: str, where: str) -> ObjectCorrupt:
    return ObjectCorrupt(problem, hint="build again; a damaged document is replaced", where=where)
