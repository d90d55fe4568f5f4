"""What a piece of syntax reads: names with their attributes, imports, and what it assigns on its receiver.

Purely textual, and on the safe side: a local variable that is called like a function of the module counts as reading
that function, because telling scopes apart is where a mistake would silently serve the wrong kernel. Knows no files
and follows nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

# ("cute", "arch", "lane_idx") for `cute.arch.lane_idx`: a name and the attributes read from it.
Chain = tuple[str, ...]
SUPER = "super()"

_NO_CHILDREN = frozenset({"ctx"})


@dataclass(frozen=True)
class Import:
    """``bound`` is the name that the statement binds, to ``attribute`` of ``module``, or to the module if empty.

    ``level`` counts the leading dots of a relative import. ``attribute`` is ``*`` for a star import. ``loads`` is the
    module that the statement executes: ``a.b`` for ``import a.b``, which binds ``a``.
    """

    bound: str
    module: str
    attribute: str
    level: int
    loads: str

    @property
    def target(self) -> Chain:
        """What is read from ``module``: nothing, or one attribute."""
        return (self.attribute,) if self.attribute else ()


@dataclass
class Reads:
    """``chains`` are read, ``imports`` are executed, ``stores`` are ``(name, attribute)`` pairs that are assigned."""

    chains: set[Chain] = field(default_factory=set)
    imports: list[Import] = field(default_factory=list)
    stores: set[tuple[str, str]] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)


class Annotation(ast.Expr):
    """An expression in which a string is a quoted expression."""


def reads_of(nodes: Iterable[ast.AST]) -> Reads:
    """Everything that the given pieces of syntax read, nested functions and classes included."""
    reads = Reads()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        record = _RECORDED.get(type(node))
        pending.extend(_children(node) if record is None else record(reads, node))
    return reads


def chain_of(node: ast.expr) -> Chain | None:
    """``a.b.c`` as a chain; a subscript counts as what is subscripted; None for anything else."""
    attributes: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else None


def evaluated_at_definition(statement: ast.stmt) -> list[ast.AST]:
    """The pieces that run in the enclosing scope: of a function its decorators, defaults and annotations, else all."""
    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [statement]
    returns = [Annotation(statement.returns)] if statement.returns else []
    return [*statement.decorator_list, statement.args, *returns]


def imports_of(statement: ast.Import | ast.ImportFrom) -> Iterator[Import]:
    """One ``Import`` for each name that the statement binds."""
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            module = statement.module or ""
            yield Import(alias.asname or alias.name, module, alias.name, statement.level, loads=module)
        elif alias.asname:
            yield Import(alias.asname, alias.name, "", 0, loads=alias.name)
        else:
            package = alias.name.partition(".")[0]
            yield Import(package, package, "", 0, loads=alias.name)


def _children(node: ast.AST) -> list[ast.AST]:
    children: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            children += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST) and name not in _NO_CHILDREN:
            children.append(value)
    return children


# Each handler records a node and returns what is to be visited below it.


def _name(reads: Reads, node: ast.Name) -> Iterable[ast.AST]:
    reads.chains.add((node.id,))
    return ()


def _attribute(reads: Reads, node: ast.Attribute) -> Iterable[ast.AST]:
    attributes: list[str] = []
    base: ast.expr = node
    while isinstance(base, ast.Attribute):
        attributes.insert(0, base.attr)
        base = base.value
    if isinstance(base, ast.Name):
        reads.chains.add((base.id, *attributes))
        if not isinstance(node.ctx, ast.Load) and len(attributes) == 1:
            reads.stores.add((base.id, attributes[0]))
        return ()
    if isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super":
        reads.chains.add((SUPER, *attributes))
        return base.args
    return (base,)


def _import(reads: Reads, node: ast.Import | ast.ImportFrom) -> Iterable[ast.AST]:
    reads.imports.extend(imports_of(node))
    return ()


def _global(reads: Reads, node: ast.Global) -> Iterable[ast.AST]:
    reads.global_names.update(node.names)
    return ()


def _argument(_reads: Reads, node: ast.arg) -> Iterable[ast.AST]:
    return (Annotation(node.annotation),) if node.annotation else ()


def _function(_reads: Reads, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[ast.AST]:
    return (*_children(node), Annotation(node.returns)) if node.returns else _children(node)


def _annotated(_reads: Reads, node: ast.AnnAssign) -> Iterable[ast.AST]:
    return (*_children(node), Annotation(node.annotation))


def _annotation(_reads: Reads, node: Annotation) -> Iterable[ast.AST]:
    quoted: list[ast.AST] = []
    for inner in ast.walk(node.value):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            try:
                quoted.append(ast.parse(inner.value, mode="eval").body)
            except SyntaxError:
                continue  # not an expression: the text of a Literal or of Annotated
    return (node.value, *quoted)


_RECORDED: dict[type[ast.AST], Callable[[Reads, Any], Iterable[ast.AST]]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.Global: _global,
    ast.arg: _argument,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.AnnAssign: _annotated,
    Annotation: _annotation,
}
