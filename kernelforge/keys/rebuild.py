"""JSON form -> compile key: for keys that arrive from elsewhere than ``dispatch``, a pod's report above all.

Only what comes out exactly as it went in is accepted: the rebuilt key's own JSON form must be the one that was given.
Enums, dtypes and nested dataclasses name types that a document cannot vouch for, so such keys are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kernelforge.encoding import fields_json
from kernelforge.errors import ContractError
from kernelforge.keys.enumerate import check_key, import_kernel

_TO_THE_MANIFEST = "add it to the manifest"


def rebuild_key(kernel: str, fields: Mapping[str, Any]) -> Any:
    """The compile key of ``kernel`` with these fields (``encoding.fields_json``).

    Raises ``ContractError``: there is no such kernel, its keys have other fields by now, or a field's value is none
    that can be rebuilt (None, bool, int, float, str and tuples of these can).
    """
    kernel_class = import_kernel(kernel)
    key_class: Any = getattr(kernel_class, "CompileKey", None)
    where = f"{kernel}.CompileKey"
    values = {name: _value(form, f"{where}.{name}") for name, form in fields.items()}
    try:
        key = key_class(**values)
    except Exception as error:
        raise ContractError(
            f"the key cannot be rebuilt: {type(error).__name__}: {error}",
            hint=f"it comes from another version of the class: build with that one, or {_TO_THE_MANIFEST}",
            where=where,
        ) from error
    check_key(kernel, kernel_class, key)
    if _text(fields_json(key, where=where)) != _text(fields):
        raise ContractError(
            f"the key cannot be rebuilt: it becomes {_text(fields_json(key, where=where))}, asked for {_text(fields)}",
            hint=f"it comes from another version of the class: build with that one, or {_TO_THE_MANIFEST}",
            where=where,
        )
    return key


def _value(form: Any, where: str) -> Any:
    if form is None or type(form) in (bool, int, float, str):
        return form
    if isinstance(form, dict) and set(form) == {"tuple"} and isinstance(form["tuple"], list):
        return tuple(_value(item, where) for item in form["tuple"])
    if form in ({"float": "inf"}, {"float": "-inf"}):
        return float(form["float"])
    raise ContractError(
        f"{_text(form)} cannot be rebuilt from a document",
        hint=f"{_TO_THE_MANIFEST}, whose arguments lead to it through dispatch",
        where=where,
    )


def _text(form: Any) -> str:
    return json.dumps(form, sort_keys=True)
