"""How long a load may wait, in all: one monotonic budget, whatever it waits for.

Every call to the store gets what is left of it (``store.bounded``). There is no pause at the start: one process per
node fetches one object, and calls that fail together come back apart (``store.retry``), so a pause would delay every
start-up for nothing. Knows no policy.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kernelforge.errors import UsageError

if TYPE_CHECKING:
    from kernelforge.store.interface import ReadStore

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
        from kernelforge.store.bounded import BoundedStore

        return BoundedStore(store, self.left_s, total_s=self.total_s)
