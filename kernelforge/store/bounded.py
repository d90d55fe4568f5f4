"""One budget of time over all calls to a store: what a pod's start may spend, whatever it waits for.

Each call gets what is left, so that retries, second reads and a slow name server share the same seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kernelforge.errors import StoreUnavailable
from kernelforge.store.deadline import call_within
from kernelforge.store.interface import ReadStore, Traffic

_T = TypeVar("_T")


class BoundedStore(ReadStore):
    """``store``, whose every call raises ``StoreUnavailable`` once ``left_s()`` of the ``total_s`` is 0."""

    def __init__(self, store: ReadStore, left_s: Callable[[], float], *, total_s: float) -> None:
        self._store = store
        self._left_s = left_s
        self._total_s = total_s

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def traffic(self) -> Traffic:
        return self._store.traffic

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        return self._call(lambda: self._store.get(name, limit_bytes=limit_bytes), name)

    def size(self, name: str) -> int:
        return self._call(lambda: self._store.size(name), name)

    def _call(self, action: Callable[[], _T], name: str) -> _T:
        left_s = self._left_s()
        where = f"{self._store.location}: {name}"
        if not left_s > 0:
            raise StoreUnavailable(
                f"the {self._total_s:g} s of the load were spent before the store had answered",
                hint="check the endpoint and the network, or give more: budget_s=",
                where=where,
            )
        return call_within(left_s, action, where=where)
