"""How long a load may wait, in all: one monotonic budget, whatever it waits for.

Every call to the store gets what is left of it, so that retries, a second read of damaged bytes and a slow name server
share the same seconds. There is no pause at the start: one process per node fetches one object, and calls that fail
together come back apart (``store.deadline``), so a pause would delay every start-up for nothing. Knows no policy.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kernelforge.errors import StoreUnavailable, UsageError

if TYPE_CHECKING:
    from kernelforge.store.interface import ReadStore, Traffic

DEFAULT_BUDGET_S = 20.0


class Budget:
    """Seconds that are spent from the moment it is made."""

    def __init__(self, total_s: float) -> None:
        if not total_s > 0:
            raise UsageError(f"a budget of {total_s!r} s leaves no time", hint="budget_s=20 is the default")
        self.total_s = total_s
        self._ends_at = time.monotonic() + total_s

    def left_s(self) -> float:
        """What is left, never less than 0."""
        return max(0.0, self._ends_at - time.monotonic())

    def bound(self, store: ReadStore) -> ReadStore:
        """The same store, whose every call raises ``StoreUnavailable`` once the budget is spent."""
        return _BoundStore(store, self)


class _BoundStore:
    def __init__(self, store: ReadStore, budget: Budget) -> None:
        self._store = store
        self._budget = budget

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def traffic(self) -> Traffic:
        return self._store.traffic

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        from kernelforge.store.deadline import call_within

        return call_within(
            self._left_s(name), lambda: self._store.get(name, limit_bytes=limit_bytes), where=self._where(name)
        )

    def size(self, name: str) -> int:
        from kernelforge.store.deadline import call_within

        return call_within(self._left_s(name), lambda: self._store.size(name), where=self._where(name))

    def _left_s(self, name: str) -> float:
        left_s = self._budget.left_s()
        if not left_s:
            raise StoreUnavailable(
                f"the {self._budget.total_s:g} s of the load were spent before the store had answered",
                hint="check the endpoint and the network, or give more: budget_s=",
                where=self._where(name),
            )
        return left_s

    def _where(self, name: str) -> str:
        return f"{self._store.location}: {name}"
