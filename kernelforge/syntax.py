"""Canonical bytes of a piece of Python syntax tree: equal for equal code, whatever Python version parsed it.

The standard ``ast.dump`` and ``ast.unparse`` differ between versions (quotes, new empty fields), so neither can be
part of a key. Comments, formatting, positions and docstrings do not reach these bytes; every name, constant and
operator does. This module knows nothing of files, modules or kernels.

What differs between the trees of Python 3.10 to 3.13, and the rule that makes it not matter:

- new optional fields (``type_params`` of 3.12, ``default_value`` of 3.13): a field that is None or empty is not
  written, and fields are written by name, in the order of their names;
- f-strings: the parser of 3.12.0 left empty constants in format specs, and how adjacent literals are merged is the
  parser's affair: empty pieces are dropped, neighbouring ones joined, an empty format spec is no format spec;
- ``u"..."`` (``Constant.kind``), type comments and ``ctx`` say nothing that the rest does not say;
- syntax that one version lacks (``except*`` in 3.10, ``type X = ...`` before 3.12) does not parse there at all;
- ``with (a as b, c as d)`` is the same tree as without the parentheses from 3.10 on; ``Num``, ``Str``, ``Index`` and
  the other deprecated nodes are not made by any of these parsers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from typing import Any

from kernelforge.encoding import encode

_NOT_WRITTEN = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def canonical_bytes(node: ast.AST) -> bytes:
    """Bytes that decide whether two pieces of syntax are the same code."""
    if isinstance(node, ast.Constant):
        return _frame("c", _constant(node.value))
    kind = type(node).__name__
    members = [_identifier(kind)]
    for field in _written_fields(kind, node._fields):
        value = _field_value(node, field)
        if value is not None and value != []:
            members += (_identifier(field), _value_bytes(value))
    return _frame("n", b"".join(members))


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that do something; a body that is a docstring alone does what ``pass`` does."""
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.Pass()]
    return body


@cache
def _written_fields(_kind: str, fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(field for field in fields if field not in _NOT_WRITTEN))


def _field_value(node: ast.AST, field: str) -> Any:
    value = getattr(node, field, None)
    if field == "body" and isinstance(node, _DOCUMENTED):
        return without_docstring(node.body)
    if field == "values" and isinstance(node, ast.JoinedStr):
        return _joined_literals(node.values)
    if field == "format_spec" and isinstance(value, ast.JoinedStr) and not _joined_literals(value.values):
        return None
    return value


def _joined_literals(values: Iterable[ast.expr]) -> list[ast.expr]:
    joined: list[ast.expr] = []
    literal = ""
    for value in values:
        if isinstance(value, ast.Constant):
            literal += str(value.value)
            continue
        if literal:
            joined.append(ast.Constant(literal))
        literal = ""
        joined.append(value)
    return [*joined, ast.Constant(literal)] if literal else joined


def _value_bytes(value: Any) -> bytes:
    if isinstance(value, ast.AST):
        return canonical_bytes(value)
    if isinstance(value, list):
        return _frame("l", b"".join([_value_bytes(item) for item in value]))
    if isinstance(value, str):
        return _identifier(value)
    # The small integers of `level`, `simple` and `conversion`; None stands for `**` in a dict display.
    return encode(value, where="syntax")


def _constant(value: Any) -> bytes:
    if value is ...:
        return _frame("o", b"")
    if isinstance(value, complex):
        return _frame("j", encode((value.real, value.imag), where="syntax"))
    return encode(value, where="syntax")


@cache
def _identifier(name: str) -> bytes:
    return _frame("s", name.encode())


def _frame(tag: str, payload: bytes) -> bytes:
    return f"{tag}{len(payload)}:".encode() + payload
