"""A store that fails on purpose: for the errors that no healthy store can be made to give."""

from __future__ import annotations

from kernelforge.errors import StoreError
from kernelforge.store.memory import MemoryStore


class FailingStore(MemoryStore):
    """Raises ``error`` for every read of a name that starts with ``prefix``; ``asked`` are the names that were read."""

    def __init__(self, error: StoreError, prefix: str = "") -> None:
        super().__init__()
        self._error = error
        self._prefix = prefix
        self.asked: list[str] = []

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        self._check(name)
        return super().get_versioned(name, limit_bytes=limit_bytes)

    def size(self, name: str) -> int:
        self._check(name)
        return super().size(name)

    def _check(self, name: str) -> None:
        self.asked.append(name)
        if name.startswith(self._prefix):
            raise self._error
