"""A kernel's project as static facts: what lies inside it, what a class is made of, what an import executes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from kernelforge.fingerprint.boundary import Side
from kernelforge.fingerprint.classes import ClassBody, ClassName, chains_of_bases, class_body, search_order
from kernelforge.fingerprint.modules import Module, SourceTree
from kernelforge.fingerprint.outside import computed_code
from kernelforge.fingerprint.reads import Chain, Import, chain_of, reads_of

_HARMLESS = frozenset({"__name__", "__qualname__", "__module__", "__doc__"})
_COMPUTED_CLASSES = "__subclasses__"


class Project:
    """Answers about the modules around one kernel class; each answer is worked out once."""

    def __init__(self, kernel: ClassName, tree: SourceTree) -> None:
        self.kernel = kernel
        self.tree = tree
        self._root = kernel.module.partition(".")[0]
        self._bodies: dict[ClassName, ClassBody] = {}
        self._orders: dict[ClassName, list[ClassName]] = {}

    def side(self, module: str) -> Side:
        """On which side of the project's boundary a module lies."""
        return self.tree.boundary.side(module, self._root)

    def has_source(self, module: str) -> bool:
        """Whether it is a module of the project with a source file; a namespace package has none."""
        return self.side(module) is Side.INSIDE and self.tree.file(module) is not None

    def loaded_by(self, imported: Import) -> Iterator[str]:
        """The project's modules that an import executes: the one named, and a submodule taken from a package."""
        for name in (imported.loads, f"{imported.loads}.{imported.attribute}" if imported.attribute else ""):
            if name and self.has_source(name):
                yield name

    def loaded_for_effect(self, module: Module) -> Iterator[str]:
        """Modules that this one imports and never reads: for their effects, or (in a package) to re-export names."""
        for imported in module.side_imports:
            yield from self.loaded_by(imported)

    def packages_around(self, module: str) -> Iterator[str]:
        """The packages that are executed before the module is."""
        while module := module.rpartition(".")[0]:
            if self.has_source(module):
                yield module

    def body(self, name: ClassName) -> ClassBody:
        """The class taken apart."""
        if name not in self._bodies:
            statements = self.tree.module(name.module).definitions[name.name]
            self._bodies[name] = class_body([s for s in statements if is_class_statement(s, name.name)])
        return self._bodies[name]

    def search_order(self, name: ClassName) -> list[ClassName]:
        """Python's method resolution order, without what lies outside the project."""
        if name not in self._orders:
            self._orders[name] = search_order(name, self._bases_of)
        return self._orders[name]

    def says_more(self, name: ClassName, attribute: str) -> bool:
        """Whether reading this attribute of Python's own (``__dict__``, ``__mro__``) tells about other members."""
        if attribute == _COMPUTED_CLASSES:
            raise computed_code(f"{attribute}()", str(name))
        is_special = attribute.startswith("__") and attribute.endswith("__") and attribute not in _HARMLESS
        return is_special and not any(attribute in self.body(owner).members for owner in self.search_order(name))

    def find_classes(
        self, module: str, chain: Chain, seen: frozenset[tuple[str, Chain]] = frozenset()
    ) -> list[ClassName]:
        """The project's classes that ``chain``, read in a module, can stand for; none if it stands for no class."""
        here = (module, chain)
        if not chain or here in seen or self.side(module) is not Side.INSIDE or not self.tree.exists(module):
            return []
        if self.tree.file(module) is None:
            return self.find_classes(f"{module}.{chain[0]}", chain[1:], seen | {here})
        found = self.tree.module(module)
        if len(chain) == 1 and any(is_class_statement(s, chain[0]) for s in found.definitions.get(chain[0], ())):
            return [ClassName(module, chain[0])]
        classes: list[ClassName] = []
        for imported in found.imports.get(chain[0], ()):
            classes += self.find_classes(imported.module, (*imported.target, *chain[1:]), seen | {here})
        return classes or self.find_classes(f"{module}.{chain[0]}", chain[1:], seen | {here})

    def is_foreign_base(self, module: Module, base: ast.expr) -> bool:
        """Whether a base class is one whose code nobody reads here: it may call any member that the class overrides.

        Not the project's own classes, nor builtins, the standard library and the contract, which call no such members.
        """
        chain = chain_of(base)
        if chain is None:
            return True
        if self.find_classes(module.name, chain):
            return False
        imports = module.imports.get(chain[0], ())
        well_known = (Side.CONTRACT, Side.STANDARD_LIBRARY)
        return chain[0] in module.definitions or any(self.side(i.module) not in well_known for i in imports)

    def registered(self, module: Module) -> Iterator[str]:
        """Names of definitions that project code sees when the module is executed, and may so put into a table."""
        for name, statements in module.definitions.items():
            if any(self.is_seen(module, s) or self._has_subclass_hook(module, s) for s in statements):
                yield name

    def is_seen(self, module: Module, statement: ast.stmt) -> bool:
        """Whether a decorator or metaclass of the project is handed this function or class."""
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return False
        seen_by: list[ast.expr] = list(statement.decorator_list)
        if isinstance(statement, ast.ClassDef):
            seen_by += [keyword.value for keyword in statement.keywords if keyword.arg == "metaclass"]
        return any(self._is_project_code(module, chain[0]) for chain in reads_of(seen_by).chains)

    def _has_subclass_hook(self, module: Module, statement: ast.stmt) -> bool:
        """Whether making this top-level class runs an ``__init_subclass__`` of the project."""
        if not isinstance(statement, ast.ClassDef) or not statement.bases:
            return False
        bases = self.search_order(ClassName(module.name, statement.name))[1:]
        return any("__init_subclass__" in self.body(base).members for base in bases)

    def _is_project_code(self, module: Module, name: str) -> bool:
        imports = module.imports.get(name, ())
        return name in module.definitions or any(self.side(i.module) is Side.INSIDE for i in imports)

    def _bases_of(self, name: ClassName) -> list[ClassName]:
        found = (base for chain in chains_of_bases(self.body(name)) for base in self.find_classes(name.module, chain))
        return [base for base in dict.fromkeys(found) if base != name]


def is_class_statement(statement: ast.stmt, name: str) -> TypeGuard[ast.ClassDef]:
    """Whether it is the class statement of this name (a class may bind other names with ``global``)."""
    return isinstance(statement, ast.ClassDef) and statement.name == name
