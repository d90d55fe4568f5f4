"""Classes as text: their members, the rest of their body, their bases and the order in which bases are searched."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelforge.errors import SourceError
from kernelforge.fingerprint.reads import Chain, chain_of, reads_of


@dataclass(frozen=True)
class ClassName:
    """A class at the top level of a module."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


@dataclass(frozen=True)
class ClassBody:
    """``members``: name -> statements that bind it. ``skeleton``: the head, and statements that bind no member.

    ``data_order``: members that are not functions, in order, since that is the order of a dataclass's or enum's fields.
    ``writers``: attribute -> members that assign it on their receiver, so ``self.x`` may be what they made it.
    """

    definitions: tuple[ast.ClassDef, ...]
    members: Mapping[str, tuple[ast.stmt, ...]]
    skeleton: tuple[ast.AST, ...]
    data_order: tuple[str, ...]
    writers: Mapping[str, frozenset[str]]

    @property
    def base_expressions(self) -> list[ast.expr]:
        return [base for definition in self.definitions for base in definition.bases]


def class_body(definitions: Sequence[ast.ClassDef]) -> ClassBody:
    """Take apart a class; several definitions of one name count as one class with all their members."""
    members: dict[str, list[ast.stmt]] = {}
    skeleton: list[ast.AST] = []
    data_order: list[str] = []
    writers: dict[str, set[str]] = {}
    for definition in definitions:
        skeleton += [*definition.decorator_list, *definition.keywords, *getattr(definition, "type_params", [])]
        for statement in definition.body:
            names = _member_names(statement)
            if not names and not _is_inert(statement):
                skeleton.append(statement)
            for name in names:
                members.setdefault(name, []).append(statement)
                if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                    data_order.append(name)
                for attribute in _written_to_receiver(statement):
                    writers.setdefault(attribute, set()).add(name)
    return ClassBody(
        definitions=tuple(definitions),
        members={name: tuple(statements) for name, statements in members.items()},
        skeleton=tuple(skeleton),
        data_order=tuple(data_order),
        writers={attribute: frozenset(names) for attribute, names in writers.items()},
    )


def receiver_of(statement: ast.stmt) -> str:
    """The name of a method's first parameter; empty for a static method and for anything that is no method."""
    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ""
    if any(chain_of(decorator) == ("staticmethod",) for decorator in statement.decorator_list):
        return ""
    parameters = [*statement.args.posonlyargs, *statement.args.args]
    return parameters[0].arg if parameters else ""


def is_computed(statement: ast.stmt) -> bool:
    """Whether a member's value comes from a call, which may count the members before it (``enum.auto()``)."""
    is_data = isinstance(statement, (ast.Assign, ast.AnnAssign))
    return is_data and any(isinstance(node, ast.Call) for node in ast.walk(statement))


def search_order(name: ClassName, bases_of: Callable[[ClassName], Sequence[ClassName]]) -> list[ClassName]:
    """Python's method resolution order among the classes of the project; ``SourceError`` if there is none."""
    bases = bases_of(name)
    sequences = [*(search_order(base, bases_of) for base in bases), list(bases)]
    order = [name]
    while any(sequences):
        heads = [sequence[0] for sequence in sequences if sequence]
        head = next((h for h in heads if not any(h in sequence[1:] for sequence in sequences)), None)
        if head is None:
            raise SourceError("its bases have no consistent order", hint="reorder the base classes", where=str(name))
        order.append(head)
        sequences = [[item for item in sequence if item != head] for sequence in sequences]
    return order


def chains_of_bases(body: ClassBody) -> list[Chain]:
    """The bases that are plain names, ``Base`` or ``module.Base``, with or without a subscript."""
    return [chain for base in body.base_expressions if (chain := chain_of(base)) is not None]


def _member_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.expr)]
    if any(isinstance(node, (ast.Attribute, ast.Subscript)) for node in names):
        return []  # `table["x"] = ...` inside a class body changes something else
    return [node.id for node in names if isinstance(node, ast.Name)]


def _is_inert(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass)


def _written_to_receiver(statement: ast.stmt) -> set[str]:
    receiver = receiver_of(statement)
    return {attribute for name, attribute in reads_of([statement]).stores if name == receiver} if receiver else set()
