"""Checks one mapping of a file against its schema, and says what is wrong in the words of whoever wrote the file.

The only module that knows how pydantic reports errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from kernelforge.manifest.problems import Place, Problems, did_you_mean
from kernelforge.manifest.schema import WORDED, Section
from kernelforge.manifest.yaml_node import Node

_NEEDED = {
    "string_type": "text",
    "int_type": "a whole number",
    "list_type": "a list",
    "dict_type": "a mapping",
}


@dataclass(frozen=True)
class Checked:
    """``values``: what is right, defaults included. ``broken``: keys whose value was reported as wrong or missing."""

    values: Mapping[str, Any]
    broken: frozenset[str]


def check_section(schema: type[Section], node: Node, problems: Problems, *, subject: str) -> Checked:
    """Check a mapping; ``subject`` names it in problems (``engine``, ``kernels[0]``; empty for a whole file)."""
    fields = {field.alias or name: field for name, field in schema.model_fields.items()}
    if not isinstance(node.value, Mapping):
        if not node.refused:
            what = f"{subject or 'the file'} must be a mapping, not {describe(node)}"
            problems.add(node.place, what, hint=f"its keys are: {', '.join(fields)}")
        return Checked({}, frozenset(fields))
    data = node.data()
    broken = {key for key, child in node.entries.items() if child.refused}
    try:
        schema.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = str(detail["loc"][0])
            if key not in broken:
                _report(detail, key, node, fields, problems, subject)
            broken.add(key)
    return Checked(_values(data, fields, broken), frozenset(broken))


def describe(node: Node) -> str:
    """A value as its writer sees it: ``8_192 (text)``, ``a list``."""
    value = node.value
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, tuple):
        return "a list"
    if value is None:
        return "nothing"
    kinds = {str: "text", bool: "a boolean", int: "a whole number", float: "a decimal number"}
    return f"{(node.spelling or repr(value))[:60]} ({kinds[type(value)]})"


def _values(data: Mapping[str, Any], fields: Mapping[str, FieldInfo], broken: set[str]) -> dict[str, Any]:
    values = {key: field.get_default() for key, field in fields.items() if not field.is_required()}
    values.update((key, value) for key, value in data.items() if key in fields)
    return {key: value for key, value in values.items() if key not in broken}


def _report(
    detail: ErrorDetails, key: str, node: Node, fields: Mapping[str, FieldInfo], problems: Problems, subject: str
) -> None:
    name = f"{subject}.{key}" if subject else key
    if key not in node.entries:
        example = (fields[key].examples or ["..."])[0]
        problems.add(node.place, f"{name} is missing", hint=f"add {key}: {example}")
        return
    child = node.entries[key]
    if detail["type"] == "extra_forbidden":
        problems.add(child.key_place, f"{name} is not a known key", hint=did_you_mean(key, fields))
        return
    place, what, hint = _wrong_value(detail, name, child)
    problems.add(place, what, hint=hint)


def _wrong_value(detail: ErrorDetails, name: str, child: Node) -> tuple[Place, str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == WORDED:
        return child.place, f"{name}: {context['what']}", context["hint"]
    if kind == "greater_than_equal":
        return child.place, f"{name} is {child.value}", f"the least is {context['ge']}"
    if kind in ("too_short", "string_too_short"):
        return child.place, f"{name} is empty", "give at least one value"
    return child.place, f"{name} must be {_NEEDED[kind]}, not {describe(child)}", _conversion_hint(kind, child)


def _conversion_hint(kind: str, child: Node) -> str:
    if kind == "string_type" and child.spelling:
        return f'if {child.spelling} is meant as text, quote it: "{child.spelling}"'
    if kind == "int_type" and isinstance(child.value, str):
        return "write plain digits, without quotes, underscores or units"
    if child.value is None:
        return "give it a value, or delete the key"
    return f"write {_NEEDED[kind]}"
