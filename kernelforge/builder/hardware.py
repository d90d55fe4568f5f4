"""Stand-ins for what a kernel could ask about the device while it is compiled: every question is a mistake.

Facts reach device code through the compile key, which takes them from the device profile. A kernel that asks the
driver instead would bake the building machine's answer into an object for another machine; one that asks its profile
would bake in a fact that is in no key, and other profiles share the object.
"""

from __future__ import annotations

from typing import Any, NoReturn

from kernelforge.errors import UnknownFact


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


class UndeclaredHardwareInfo:
    """The compiler's ``HardwareInfo``: every question raises ``UnknownFact`` with the name of the fact."""

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id

    def get_max_active_clusters(self, cluster_size: int, *_: Any, **__: Any) -> NoReturn:
        """Clusters of this size that are resident at once."""
        raise _undeclared("max_active_clusters", f"of size {cluster_size}")

    def get_device_multiprocessor_count(self, *_: Any, **__: Any) -> NoReturn:
        """SMs of the device."""
        raise _undeclared("num_sms", "")

    def get_l2_cache_size_in_bytes(self, *_: Any, **__: Any) -> NoReturn:
        """Level 2 cache of the device."""
        raise _undeclared("l2_bytes", "")

    def __getattr__(self, question: str) -> NoReturn:
        if question.startswith("__"):
            raise AttributeError(question)
        raise _undeclared(question, "")


def _undeclared(fact: str, detail: str) -> UnknownFact:
    return UnknownFact(
        f"the kernel asks the driver for {fact} {detail}".rstrip(),
        hint=f"take it into the CompileKey: dispatch reads self.device.{fact}",
        fact=fact,
    )
