from __future__ import annotations

import pytest

from kernelforge.store import PruneStore
from kernelforge.store.memory import MemoryStore
from tests.store.conformance import StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def store(self) -> PruneStore:
        return MemoryStore()

    def test_two_stores_share_nothing(self) -> None:
        first, second = MemoryStore(), MemoryStore()
        first.create("a", b"x")
        assert list(second.names()) == []
