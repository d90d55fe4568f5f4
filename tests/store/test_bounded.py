from __future__ import annotations

import threading

import pytest

from kernelforge.errors import StoreUnavailable
from kernelforge.store import PruneStore
from kernelforge.store.bounded import BoundedStore
from kernelforge.store.memory import MemoryStore
from tests.store.conformance import StoreConformance
from tests.store.wrapped import Behind


class TestBoundedStore(StoreConformance):
    @pytest.fixture
    def store(self) -> PruneStore:
        memory = MemoryStore()
        return Behind(BoundedStore(memory, lambda: 20.0, total_s=20.0), memory)


def test_a_spent_budget_asks_nothing_more() -> None:
    memory = MemoryStore()
    memory.create("a", b"x")
    before = memory.traffic
    store = BoundedStore(memory, lambda: 0.0, total_s=7.0)
    for call in (lambda: store.get("a", limit_bytes=1), lambda: store.size("a")):
        with pytest.raises(StoreUnavailable, match="the 7 s of the load were spent"):
            call()
    assert memory.traffic == before


def test_a_call_gets_what_is_left() -> None:
    is_over = threading.Event()

    class Hangs(MemoryStore):
        def size(self, name: str) -> int:
            return int(is_over.wait())

    with pytest.raises(StoreUnavailable, match=r"0\.05 s"):
        BoundedStore(Hangs(), lambda: 0.05, total_s=20.0).size("a")
    is_over.set()
