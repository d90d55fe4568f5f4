"""What a kernel reads from outside its project: nothing to follow, at most a version to record, or a refusal."""

from __future__ import annotations

from kernelforge.errors import SourceError
from kernelforge.fingerprint.boundary import Boundary, Side
from kernelforge.fingerprint.parts import Parts
from kernelforge.fingerprint.reads import Chain

COMPUTED_CODE_BUILTINS = frozenset({"__import__", "exec", "eval"})
_COMPUTED_CODE = ("importlib.import_module", "importlib.__import__", "runpy", "sys.modules")


class Outside:
    """Records distributions as ``dist:name==version``; without ``with_versions`` not at all."""

    def __init__(self, parts: Parts, boundary: Boundary, *, with_versions: bool) -> None:
        self._parts = parts
        self._boundary = boundary
        self._with_versions = with_versions

    def reach(self, side: Side, module: str, chain: Chain) -> None:
        """``chain`` is read from a module that lies outside; ``SourceError`` if it finds code by a computed name."""
        path = ".".join((module, *chain))
        if side is Side.STANDARD_LIBRARY and any(f"{path}.".startswith(f"{name}.") for name in _COMPUTED_CODE):
            raise computed_code(path, "the kernel's code")
        root = module.partition(".")[0]
        if self._with_versions and side is Side.DISTRIBUTION:
            self._parts.add_name(f"dist:{self._boundary.distribution(root)}")
        elif self._with_versions and side is Side.ABSENT:
            # Recorded, so that machines with and without the module never share an object.
            self._parts.add_name(f"absent:{root}")


def computed_code(what: str, where: str) -> SourceError:
    """The error for code that cannot be followed."""
    return SourceError(
        f"code is found with {what}, so what it runs cannot be fingerprinted",
        hint="import what the kernel needs with an import statement, inside the function if it must be late",
        where=where,
    )
