"""Where a kernel's own project ends.

Inside, code counts by content. Outside, it counts by name or by version: the contract has a version of its own, the
compiler enters the key through the toolchain, the standard library is left out, and an installed distribution enters as
``name==version``. An editable distribution lies outside the folder that records it, so it counts by content.
"""

from __future__ import annotations

import enum
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

# The compiler and what it brings: their exact versions are in the key's toolchain.
COMPILER_ROOTS = frozenset({"cutlass", "tvm_ffi", "cuda", "nvidia_cutlass_dsl"})
CONTRACT_ROOT = "kernelforge"
KERNEL_LIBRARY = "kernelforge.kernels"


class Side(enum.Enum):
    """On which side of the boundary a module lies."""

    INSIDE = "inside"
    CONTRACT = "contract"
    COMPILER = "compiler"
    STANDARD_LIBRARY = "standard library"
    DISTRIBUTION = "distribution"
    ABSENT = "absent"


@dataclass(frozen=True)
class TopLevel:
    """Where a top-level module lies: its own file, if it has one, and the folders of its submodules."""

    file: Path | None
    places: tuple[Path, ...]


def find_top_level(name: str) -> TopLevel | None:
    """Ask Python's finders, which executes nothing; None if they know no such module."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a finder that refuses the name; a module without a spec, such as __main__
        return None
    if spec is None:
        return None
    file = Path(spec.origin) if spec.has_location and spec.origin else None
    places = tuple(Path(place) for place in spec.submodule_search_locations or ())
    return TopLevel(file, places) if file or places else None


class Boundary:
    """Answers for one process and one ``sys.path``; each top-level name is looked up once."""

    def __init__(self) -> None:
        self._distributions: dict[str, str | None] = {}

    def side(self, module: str, project: str) -> Side:
        """Where ``module`` lies, seen from a kernel whose top-level package is ``project``."""
        root = module.partition(".")[0]
        if root == CONTRACT_ROOT:
            return Side.INSIDE if f"{module}.".startswith(f"{KERNEL_LIBRARY}.") else Side.CONTRACT
        if root == project:
            return Side.INSIDE
        if root in COMPILER_ROOTS:
            return Side.COMPILER
        if root in sys.stdlib_module_names:
            return Side.STANDARD_LIBRARY
        found = self.distribution(root)
        if found is None:
            return Side.INSIDE
        return Side.DISTRIBUTION if found else Side.ABSENT

    def distribution(self, root: str) -> str | None:
        """``name==version`` of the installed distribution that ``root`` comes from.

        None if it comes from files that no distribution installed; empty if there is no such module here.
        """
        if root not in self._distributions:
            self._distributions[root] = _distribution(root)
        return self._distributions[root]


def _distribution(root: str) -> str | None:
    found = find_top_level(root)
    if found is None:
        return ""
    # A record names files relative to the folder that the top-level name lies in.
    folders = {place.parent for place in found.places} or {found.file.parent if found.file else Path()}
    owners: set[str] = set()
    for folder in folders:
        recorded = f"{found.file.relative_to(folder).as_posix()}," if found.file else f"{root}/"
        owners.update(_owners(folder, root, recorded))
    return ", ".join(sorted(owners)) or None


def _owners(folder: Path, root: str, recorded: str) -> set[str]:
    """The distributions installed in ``folder`` whose record has a line that starts with ``recorded``.

    A namespace package (no file of its own) belongs to several. The distribution named like the module is asked first:
    reading every record of a large environment takes about 0.1 s. Name and version are taken from the folder's name,
    ``name-version.dist-info``, because importing ``importlib.metadata`` for it costs a pod 30 ms.
    """
    found = set()
    likely = re.compile(rf"{re.sub(r'[-_.]+', '[-_.]+', root)}-", re.IGNORECASE)
    for info in sorted(folder.glob("*.dist-info"), key=lambda info: (not likely.match(info.name), info.name)):
        record = info / "RECORD"
        # As bytes: torch's record has 1.5 MB, and a pod reads it when it binds its first class.
        if record.is_file() and _has_line(record.read_bytes(), recorded.encode()):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            found.add(f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}")
            if not recorded.endswith("/"):
                break
    return found


def _has_line(record: bytes, start: bytes) -> bool:
    return record.startswith(start) or b"\n" + start in record
