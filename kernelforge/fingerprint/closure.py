"""The definitions that some members of a kernel class can reach inside the kernel's project, each with its digest.

Every reached definition becomes a part, ``module:Qualified.name`` -> digest of its canonical bytes. Part names are in
the fingerprint: they become symbols in objects, and without them ``from h import f as g, g as f`` would look like
``from h import f, g``. So a function that moves to another module costs one rebuild, which yields the same object.

Where Python leaves a choice open, more is reached rather than less:

- a class, module or receiver (``self``) that is used bare can be asked for anything, so all of it is reached;
- effects of a reached module and of its packages always count, and so do definitions that project code sees at import;
- ``self.x`` reaches the member that the class of the receiver finds, and every method that assigns ``self.x``;
- a class with a base class that is not read here, or that a decorator of the project gets, is reached as a whole.

Not seen: files that reached code opens, the environment (builders run in a clean one), effects of calls in plain
assignments (``x = register(f)``), and effects of modules whose names are imported for code that is not reached itself.
Code that is found by computing its name is refused.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kernelforge.contract import CONTRACT_VERSION
from kernelforge.digest import Digest
from kernelforge.fingerprint.boundary import Side
from kernelforge.fingerprint.classes import ClassName, is_computed, receiver_of
from kernelforge.fingerprint.modules import Module
from kernelforge.fingerprint.outside import COMPUTED_CODE_BUILTINS, Outside, computed_code
from kernelforge.fingerprint.parts import Parts
from kernelforge.fingerprint.project import Project, is_class_statement
from kernelforge.fingerprint.reads import SUPER, Chain, Import, chain_of, evaluated_at_definition, reads_of

# What Python itself runs when a class is subclassed or instantiated, and when an attribute is looked up.
_ALWAYS_RUN = ("__init_subclass__", "__class_getitem__", "__new__", "__init__")
_LOOKUP_HOOKS = ("__getattribute__", "__getattr__")
# Read like a member: the class statement itself, of a base class or of a class that project code sees.
_STATEMENT_ONLY = "<class statement>"


class Closure:
    """Follows the kernel class of a project, once.

    With ``with_versions`` installed distributions enter as ``dist:name==version``; without, by name alone.
    """

    def __init__(self, project: Project, *, with_versions: bool) -> None:
        self._parts = Parts()
        self._project = project
        self._tree = project.tree
        self._outside = Outside(self._parts, project.tree.boundary, with_versions=with_versions)
        self._executed: set[str] = set()
        self._seen: set[tuple[Any, ...]] = set()
        self._pending: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def of(self, members: Sequence[str]) -> dict[str, Digest]:
        """The parts that these members of the kernel class reach, as far as the project defines them."""
        self._parts.add_name(f"contract=={CONTRACT_VERSION}")
        for member in members:
            self._later(self._member, self._project.kernel, member)
        while self._pending:
            step, arguments = self._pending.popleft()
            step(*arguments)
        for name in self._executed:
            self._parts.add_order(self._tree.module(name))
        return self._parts.digests

    # Steps: each runs once for the same arguments.

    def _module(self, name: str) -> None:
        """The module is executed: its effects count, and those of the packages around it."""
        module = self._tree.module(name)
        self._executed.add(name)
        stars = module.star_imports
        if module.effects or stars:
            self._parts.add(f"{name}:<module>", module.effects, stars)
            self._follow(module, module.effects)
        for star in stars:
            self._later(self._path, star.module, ())
        for registered in self._project.registered(module):
            self._later(self._name, name, registered, (_STATEMENT_ONLY,))
        for loaded in (*self._project.loaded_for_effect(module), *self._project.packages_around(name)):
            self._later(self._module, loaded)

    def _name(self, module_name: str, name: str, attributes: Chain) -> None:
        """A name at the top level of a module, and the attributes read from it."""
        module = self._tree.module(module_name)
        self._later(self._module, module_name)
        statements, imports = module.definitions.get(name, ()), module.imports.get(name, ())
        if any(is_class_statement(statement, name) for statement in statements):
            self._later(self._class_attribute, ClassName(module_name, name), attributes)
        if imports or not all(is_class_statement(statement, name) for statement in statements):
            self._later(self._definition, module_name, name)
        for imported in imports:
            self._later(self._path, imported.module, (*imported.target, *attributes))

    def _definition(self, module_name: str, name: str) -> None:
        """What binds the name beside a class statement."""
        module = self._tree.module(module_name)
        bindings = module.definitions.get(name, ())
        statements = [statement for statement in bindings if not is_class_statement(statement, name)]
        part = f"{module_name}:{name}" + (".<other bindings>" if len(statements) < len(bindings) else "")
        self._parts.add(part, statements, module.imports.get(name, ()))
        self._follow(module, statements)

    def _path(self, module_name: str, chain: Chain) -> None:
        """``chain`` read from a module, wherever the module lies."""
        side = self._project.side(module_name)
        if side is not Side.INSIDE:
            self._outside.reach(side, module_name, chain)
        elif chain:
            self._attribute_of_module(module_name, chain[0], chain[1:])
        elif self._tree.file(module_name) is not None or not self._tree.exists(module_name):
            self._later(self._whole_module, module_name)

    def _whole_module(self, name: str) -> None:
        module = self._tree.module(name)
        self._later(self._module, name)
        for bound in (*module.definitions, *module.imports):
            self._later(self._name, name, bound, ())

    def _class_attribute(self, name: ClassName, attributes: Chain) -> None:
        if not attributes or self._project.says_more(name, attributes[0]):
            self._later(self._whole_class, name)
        elif attributes[0] == _STATEMENT_ONLY:
            self._later(self._class_statement, name)
        else:
            self._later(self._member, name, attributes[0])

    def _class_statement(self, name: ClassName) -> None:
        """The class is made: its head, its bases and what runs when it is made and instantiated."""
        module, body = self._tree.module(name.module), self._project.body(name)
        self._later(self._module, name.module)
        self._parts.add(str(name), [*body.skeleton, *body.base_expressions])
        self._follow(module, body.skeleton, owner=name)
        for base in body.base_expressions:
            chain = chain_of(base)
            if chain is not None and self._project.find_classes(name.module, chain):
                self._read(module, (*chain, _STATEMENT_ONLY))
                self._follow(module, [node.slice for node in ast.walk(base) if isinstance(node, ast.Subscript)])
            else:
                self._follow(module, [base])
        for hook in _ALWAYS_RUN:
            self._later(self._member, name, hook)
        is_seen = any(self._project.is_seen(module, definition) for definition in body.definitions)
        if is_seen or any(self._project.is_foreign_base(module, base) for base in body.base_expressions):
            self._later(self._whole_class, name)
        for member, statements in body.members.items():
            if any(self._project.is_seen(module, statement) for statement in statements):
                self._later(self._owned_member, name, member, name)

    def _whole_class(self, name: ClassName) -> None:
        self._later(self._class_statement, name)
        for owner in self._project.search_order(name):
            self._later(self._data, owner)
            for member in self._project.body(owner).members:
                self._later(self._owned_member, owner, member, name)

    def _data(self, owner: ClassName) -> None:
        """All members that are no functions, and their order: that of a dataclass's fields, or of ``enum.auto()``."""
        body = self._project.body(owner)
        if body.data_order:
            self._parts.add_name(f"{owner}.<fields: {', '.join(body.data_order)}>")
        for member in body.data_order:
            self._later(self._owned_member, owner, member, owner)

    def _member(self, receiver: ClassName, member: str) -> None:
        """What ``receiver.member`` finds: a definition in the class or a base, and methods that assign it."""
        self._later(self._class_statement, receiver)
        order = self._project.search_order(receiver)
        for wanted in (member, *_LOOKUP_HOOKS):
            self._first_owner(order, wanted, receiver)
        for owner in order:
            for writer in self._project.body(owner).writers.get(member, ()):
                self._later(self._owned_member, owner, writer, receiver)

    def _inherited(self, owner: ClassName, member: str, receiver: ClassName) -> None:
        """What ``super().member`` finds in a method of ``owner``."""
        order = self._project.search_order(receiver)
        self._first_owner(order[order.index(owner) + 1 :], member, receiver)

    def _owned_member(self, owner: ClassName, member: str, receiver: ClassName) -> None:
        body = self._project.body(owner)
        statements = body.members[member]
        self._parts.add(f"{owner}.{member}", statements)
        self._later(self._class_statement, owner)
        if any(is_computed(statement) for statement in statements):
            self._later(self._data, owner)
        self._follow(self._tree.module(owner.module), statements, owner=owner, receiver=receiver)

    # What steps are made of.

    def _later(self, step: Callable[..., None], *arguments: Any) -> None:
        key = (step.__name__, *arguments)
        if key not in self._seen:
            self._seen.add(key)
            self._pending.append((step, arguments))

    def _first_owner(self, order: Sequence[ClassName], member: str, receiver: ClassName) -> None:
        owner = next((owner for owner in order if member in self._project.body(owner).members), None)
        if owner is not None:
            self._later(self._owned_member, owner, member, receiver)

    def _follow(
        self,
        module: Module,
        nodes: Sequence[ast.AST],
        owner: ClassName | None = None,
        receiver: ClassName | None = None,
    ) -> None:
        """Reach what these pieces of a module read; inside a class, class scope and receiver are known too."""
        if owner is not None:
            self._follow_class_scope(owner, nodes)
        for node in nodes:
            reads = reads_of([node])
            imports = [module.absolute(imported) for imported in reads.imports]
            for imported in imports:
                self._follow_local_import(imported)
            receiver_names = {receiver_of(node), SUPER, "super", "__class__"} if isinstance(node, ast.stmt) else set()
            for chain in reads.chains:
                if owner is not None and receiver is not None and chain[0] in receiver_names:
                    self._read_receiver(owner, receiver, chain)
                else:
                    self._read(module, chain, imports)

    def _follow_local_import(self, imported: Import) -> None:
        for loaded in self._project.loaded_by(imported):
            self._later(self._module, loaded)
        if imported.attribute == "*":
            self._later(self._path, imported.module, ())

    def _follow_class_scope(self, owner: ClassName, nodes: Sequence[ast.AST]) -> None:
        members = self._project.body(owner).members
        pieces = [
            p for node in nodes for p in (evaluated_at_definition(node) if isinstance(node, ast.stmt) else [node])
        ]
        for chain in reads_of(pieces).chains:
            if chain[0] in members:
                self._later(self._owned_member, owner, chain[0], owner)

    def _read_receiver(self, owner: ClassName, receiver: ClassName, chain: Chain) -> None:
        if len(chain) == 1 or self._project.says_more(receiver, chain[1]):
            self._later(self._whole_class, receiver)
        elif chain[0] == SUPER:
            self._later(self._inherited, owner, chain[1], receiver)
        else:
            self._later(self._member, receiver, chain[1])

    def _read(self, module: Module, chain: Chain, local_imports: Sequence[Import] = ()) -> None:
        """A name that code of ``module`` reads, with its attributes."""
        name, attributes = chain[0], chain[1:]
        local = [imported for imported in local_imports if imported.bound == name]
        for imported in local:
            self._later(self._path, imported.module, (*imported.target, *attributes))
        if name in module.definitions or name in module.imports:
            self._later(self._name, module.name, name, attributes)
        elif not local and name == "globals":
            self._later(self._whole_module, module.name)
        elif not local and name in COMPUTED_CODE_BUILTINS:
            raise computed_code(name, str(module.file))

    def _attribute_of_module(self, module_name: str, name: str, rest: Chain) -> None:
        submodule = f"{module_name}.{name}"
        is_submodule = self._tree.exists(submodule)
        if is_submodule:
            self._later(self._path, submodule, rest)
        if self._tree.file(module_name) is None and self._tree.exists(module_name):
            return  # a namespace package has nothing but submodules
        module = self._tree.module(module_name)
        self._later(self._module, module_name)
        if name in module.definitions or name in module.imports:
            self._later(self._name, module_name, name, rest)
        elif not is_submodule and not name.startswith("__"):
            # From a star import, a module's __getattr__, or set from outside: anything in the module may be it.
            self._later(self._whole_module, module_name)
