"""What was reached, as names and digests: the parts that a fingerprint is made of."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kernelforge.digest import Digest
from kernelforge.encoding import encode
from kernelforge.fingerprint.modules import Module
from kernelforge.fingerprint.reads import Import
from kernelforge.syntax import canonical_bytes


class Parts:
    """``digests``: part name -> digest. Adding a part again changes nothing."""

    def __init__(self) -> None:
        self.digests: dict[str, Digest] = {}

    def add(self, name: str, nodes: Iterable[ast.AST], imports: Iterable[Import] = ()) -> None:
        """Code that was reached, and what names bound by imports stand for."""
        fields = {
            "code": [canonical_bytes(node) for node in nodes],
            "imports": [(imported.module, imported.attribute) for imported in imports],
        }
        self.digests[name] = Digest.of(encode(fields, where=name))

    def add_name(self, name: str) -> None:
        """A part whose name says everything."""
        self.digests[name] = Digest.of(name.encode())

    def add_order(self, module: Module) -> None:
        """To be called last: where effects or second assignments exist, their order among what was reached matters.

        Without either, a name has one value wherever its definition stands, and moving it changes nothing.
        """
        names = [name for name in module.definitions if f"{module.name}:{name}" in self.digests]
        effects = {id(statement) for statement in module.effects}
        counted = effects | {id(statement) for name in names for statement in module.definitions[name]}
        order = [statement for statement in module.executed if id(statement) in counted]
        is_rebound = any(len(module.definitions[name]) > 1 for name in names)
        if len(order) > 1 and (is_rebound or any(id(statement) in effects for statement in order)):
            self.add(f"{module.name}:<order>", order)
