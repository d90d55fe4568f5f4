"""What a kernel is told about the device while it is compiled: its key's fields, and what its architecture fixes.

Facts reach device code through the compile key, which takes them from the device profile. A kernel that asked the
driver would bake the building machine's answer into an object for another machine; one that asked its profile would
bake in a fact that is in no key, and other profiles share the object. So a question is answered from the field of the
key that has the fact's name, and any other question is a mistake. Knows no driver and no compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from kernelforge.device import FACTS
from kernelforge.errors import UnknownFact
from kernelforge.target import compute_capability

# Equal on all products of a compute capability: CUDA C++ Programming Guide, technical specifications per compute
# capability. One block can have what its SM has, less 1 KiB that the system keeps.
_SHARED_MEMORY_PER_SM_KIB = {
    (8, 0): 164,
    (8, 6): 100,
    (8, 9): 100,
    (9, 0): 228,
    (10, 0): 228,
    (10, 3): 228,
    (12, 0): 100,
}
_REGISTERS_PER_SM = 65536


class KeyOnlyDevice:
    """What ``self.device`` is while a kernel is compiled: the architecture, which is in the key, and nothing else."""

    def __init__(self, arch: str) -> None:
        self.arch = arch

    def __getattr__(self, fact: str) -> NoReturn:
        if fact.startswith("__"):
            raise AttributeError(fact)
        raise UnknownFact(
            f"the kernel reads self.device.{fact} while it is compiled",
            hint=f"make {fact} a field of the CompileKey: dispatch may read self.device.{fact}",
            fact=fact,
        )


class KeyAnswers:
    """Answers of a device of ``arch`` as ``key`` describes it; ``UnknownFact`` for what the key does not say."""

    def __init__(self, arch: str, key: object) -> None:
        self.arch = arch
        self._key = key

    def number(self, fact: str) -> int:
        """A fact that is one number: the key's field of this name, or what the architecture fixes."""
        value = getattr(self._key, fact, None)
        if value is None:
            value = architecture_facts(self.arch).get(fact)
        if type(value) is not int:
            raise _undeclared(fact, "", f"{fact}=self.device.{fact}")
        return value

    def max_active_clusters(self, cluster_size: int) -> int:
        """Clusters of this many blocks that are resident at once.

        The key's field ``max_active_clusters`` is one pair of cluster size and count, several pairs, or a mapping.
        """
        counts = dict(_pairs(getattr(self._key, "max_active_clusters", ())))
        if cluster_size not in counts:
            filled = f"max_active_clusters=({cluster_size}, self.device.max_active_clusters['{cluster_size}'])"
            raise _undeclared("max_active_clusters", f" of size {cluster_size}", filled)
        return counts[cluster_size]

    def refuse(self, question: str) -> NoReturn:
        """Raise ``UnknownFact`` for a question that no profile has an answer to."""
        raise UnknownFact(
            f"the kernel asks the driver for {question}",
            hint=f"a kernel may depend on its CompileKey, and dispatch on these facts: {', '.join(FACTS)}",
            fact=question,
        )


def architecture_facts(arch: str) -> dict[str, int]:
    """Facts that all products of an architecture share, under their names in device profiles."""
    per_sm = _SHARED_MEMORY_PER_SM_KIB[compute_capability(arch)] * 1024
    return {
        "shared_memory_per_sm_bytes": per_sm,
        "shared_memory_per_block_bytes": per_sm - 1024,
        "registers_per_sm": _REGISTERS_PER_SM,
    }


def _pairs(field: Any) -> list[tuple[int, int]]:
    pairs = field.items() if isinstance(field, Mapping) else field
    if isinstance(pairs, tuple) and len(pairs) == 2 and all(type(number) is int for number in pairs):
        pairs = (pairs,)
    try:
        return [(int(size), count) for size, count in pairs]
    except (TypeError, ValueError) as error:
        raise UnknownFact(
            f"the CompileKey has max_active_clusters={field!r}, which does not say for which cluster size",
            hint="make it a pair of cluster size and count, several pairs, or the mapping of the device profile",
            fact="max_active_clusters",
        ) from error


def _undeclared(fact: str, detail: str, filled: str) -> UnknownFact:
    return UnknownFact(
        f"the kernel asks the driver for {fact}{detail}",
        hint=f"make {fact} a field of the CompileKey, which dispatch fills with {filled}",
        fact=fact,
    )
