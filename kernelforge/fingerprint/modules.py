"""Modules as text: where a module's file is, and which top-level statement defines which name.

Nothing is imported: device modules import the compiler, and importing runs code. Only the top-level package is looked
up through Python's finders, which does not execute it; everything below is found as files beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelforge.errors import SourceError
from kernelforge.fingerprint.boundary import Boundary, find_top_level
from kernelforge.fingerprint.reads import Import, imports_of, reads_of


@dataclass(frozen=True)
class Module:
    """The top level of one source file, taken apart.

    ``definitions``: name -> the statements that bind it, in order; no statements where only an effect binds it.
    ``imports``: name -> what it may be bound to, with absolute module names. ``effects``: statements that are no plain
    definition (loops, conditions, calls, ``X.y = ...``): they can change anything, so they always count.
    ``side_imports``: imports whose names the module never reads, so that they can only be there for their effects.
    ``executed``: assignments and effects, in order.
    """

    name: str
    file: Path
    definitions: Mapping[str, tuple[ast.stmt, ...]]
    imports: Mapping[str, tuple[Import, ...]]
    star_imports: tuple[Import, ...]
    side_imports: tuple[Import, ...]
    effects: tuple[ast.stmt, ...]
    executed: tuple[ast.stmt, ...]
    package: str

    def absolute(self, imported: Import) -> Import:
        """The import with its module name made absolute; leading dots beyond the package are a ``SourceError``."""
        if not imported.level:
            return imported
        parts = self.package.split(".")
        kept = len(parts) - imported.level + 1
        if kept < 1 or not self.package:
            raise SourceError(
                f"a relative import of {imported.module or imported.attribute!r} leaves the package",
                hint="use the module's full name",
                where=str(self.file),
            )
        module = ".".join([*parts[:kept], *([imported.module] if imported.module else [])])
        return Import(imported.bound, module, imported.attribute, 0, loads=module)


class SourceTree:
    """Finds and parses modules, each file once. Share one between the kernels of a plan."""

    def __init__(self) -> None:
        self.boundary = Boundary()
        self._modules: dict[str, Module] = {}
        self._places: dict[str, tuple[Path, ...]] = {}
        self._files: dict[str, Path | None] = {}

    def module(self, name: str) -> Module:
        """The parsed module; ``SourceError`` if it has no source file or cannot be parsed."""
        if name not in self._modules:
            file = self.file(name)
            if file is None:
                raise SourceError(
                    f"module {name!r} has no Python source file",
                    hint="kernels are fingerprinted from source; add the package's folder to sys.path or install it",
                    where=name,
                )
            self._modules[name] = _parse(name, file)
        return self._modules[name]

    def exists(self, name: str) -> bool:
        """Whether there is such a module, or a namespace package, which has no file."""
        return self.file(name) is not None or bool(self._package_places(name))

    def file(self, name: str) -> Path | None:
        """The module's source file; None if there is none (absent, compiled, or a namespace package)."""
        if name not in self._files:
            self._files[name] = self._find(name)
        return self._files[name]

    def _find(self, name: str) -> Path | None:
        parent, _, last = name.rpartition(".")
        if not parent:
            found = find_top_level(name)
            return found.file if found and found.file and found.file.suffix == ".py" else None
        for place in self._package_places(parent):
            for candidate in (place / last / "__init__.py", place / f"{last}.py"):
                if candidate.is_file():
                    return candidate
        return None

    def _package_places(self, name: str) -> tuple[Path, ...]:
        """The folders whose files are the package's submodules: one, or several for a namespace package."""
        if name not in self._places:
            parent, _, last = name.rpartition(".")
            if not parent:
                found = find_top_level(name)
                self._places[name] = found.places if found else ()
            elif (file := self.file(name)) is not None:
                self._places[name] = (file.parent,) if file.name == "__init__.py" else ()
            else:
                folders = (place / last for place in self._package_places(parent))
                self._places[name] = tuple(folder for folder in folders if folder.is_dir())
        return self._places[name]


def _parse(name: str, file: Path) -> Module:
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise SourceError(
            f"module {name!r} cannot be parsed: {error}",
            hint="fix the syntax, or use a Python version that knows it",
            where=f"{file}:{line}" if line else str(file),
        ) from error
    except OSError as error:
        raise SourceError(
            f"module {name!r} cannot be read: {error}", hint="make it readable", where=str(file)
        ) from error
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    return _Sorted(tree).module(name, file, package)


class _Sorted:
    """Sorts the top-level statements of one file into definitions, imports and effects."""

    def __init__(self, tree: ast.Module) -> None:
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: list[Import] = []
        self.effects: list[ast.stmt] = []
        self.executed: list[ast.stmt] = []
        self.names_read = {chain[0] for chain in reads_of(tree.body).chains}
        self.typing_imports: set[Import] = set()
        for statement, is_executed in _opened(tree.body):
            self._sort(statement)
            if not is_executed and isinstance(statement, (ast.Import, ast.ImportFrom)):
                self.typing_imports.update(imports_of(statement))

    def module(self, name: str, file: Path, package: str) -> Module:
        bare = Module(name, file, {}, {}, (), (), (), (), package)
        imports = [bare.absolute(imported) for imported in self.imports]
        unread = [i for i in self.imports if i.bound not in self.names_read | {"*"} and i not in self.typing_imports]
        bound: dict[str, tuple[Import, ...]] = {}
        for imported in imports:
            bound[imported.bound] = (*bound.get(imported.bound, ()), imported)
        stars = bound.pop("*", ())
        return Module(
            name=name,
            file=file,
            definitions={bound_name: tuple(found) for bound_name, found in self.definitions.items()},
            imports=bound,
            star_imports=stars,
            side_imports=tuple(bare.absolute(imported) for imported in unread),
            effects=tuple(self.effects),
            executed=tuple(self.executed),
            package=package,
        )

    def _sort(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            self.imports.extend(imports_of(statement))
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                self.effects.append(statement)  # changes what annotations are, for every function of the file
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            # A function with `global x` is one of the places that give x its value.
            for name in {statement.name, *reads_of([statement]).global_names}:
                self.definitions.setdefault(name, []).append(statement)
        elif _is_plain_assignment(statement):
            self.executed.append(statement)
            for name in _names_bound(statement):
                self.definitions.setdefault(name, []).append(statement)
        else:
            self._sort_effect(statement)

    def _sort_effect(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Pass) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        ):
            return
        self.effects.append(statement)
        self.executed.append(statement)
        for name in _names_bound(statement):
            self.definitions.setdefault(name, [])
        for node in ast.walk(statement):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imports.extend(imports_of(node))


def _opened(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
    """Top-level statements and whether they run, with ``if TYPE_CHECKING`` opened up.

    The body of ``if __name__ == "__main__"`` is left out: it never runs in an imported module.
    """
    for statement in body:
        if isinstance(statement, ast.If) and _is_type_checking(statement.test):
            yield from ((inner, False) for inner, _ in _opened(statement.body))
            yield from _opened(statement.orelse)
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
            yield from _opened(statement.orelse)
        else:
            yield statement, True


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _is_plain_assignment(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return all(_is_plain_target(target) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name)
    return type(statement).__name__ == "TypeAlias"  # `type X = ...`, from Python 3.12 on


def _is_plain_target(target: ast.expr) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(_is_plain_target(item) for item in target.elts)
    return isinstance(target, ast.Name) or (isinstance(target, ast.Starred) and _is_plain_target(target.value))


def _names_bound(statement: ast.stmt) -> set[str]:
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return names | {node.name for node in ast.walk(statement) if isinstance(node, scopes)}
