"""The store of one load: opened when it is first needed, by the lockfile or by a pack, and never twice.

Making a client takes longer than asking it for a pack. Every call to it is within the load's budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kernelforge.errors import StoreError
from kernelforge.loader.budget import Budget

if TYPE_CHECKING:
    from kernelforge.store.interface import ReadStore


class LoadStore:
    """``store``: a location, an open store, or None for a load without one.

    ``on_trouble`` gets the errors of the location's mirrors, which do not stop the load.
    """

    def __init__(self, store: str | ReadStore | None, budget: Budget, on_trouble: Callable[[StoreError], None]) -> None:
        self._store = store
        self._budget = budget
        self._on_trouble = on_trouble
        self._bound: ReadStore | None = None

    def opened(self) -> ReadStore | None:
        """The store; None if the load has none. ``UsageError`` for a location that is none."""
        if self._store is not None and self._bound is None:
            self._bound = self._budget.bound(self._located(self._store))
        return self._bound

    def opener(self, bundle: ReadStore | None) -> Callable[[], ReadStore] | None:
        """What opens the place where packs are in the end: the bundle that the lockfile came in, else the store."""
        if bundle is None and self._store is None:
            return None

        def open_it() -> ReadStore:
            store = bundle or self.opened()
            assert store is not None, "asked above"
            return store

        return open_it

    def _located(self, store: str | ReadStore) -> ReadStore:
        if not isinstance(store, str):
            return store
        from kernelforge.store.deadline import Deadlines
        from kernelforge.store.locate import open_reader

        deadlines = Deadlines(call_s=self._budget.total_s)
        return open_reader(store, deadlines=deadlines, on_trouble=self._on_trouble)
