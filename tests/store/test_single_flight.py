from __future__ import annotations

import threading
from functools import partial

import pytest

from kernelforge.errors import ObjectMissing
from kernelforge.store import PruneStore
from kernelforge.store.memory import MemoryStore
from kernelforge.store.single_flight import SingleFlightStore
from tests.store.conformance import StoreConformance, at_once
from tests.store.wrapped import Behind


class TestSingleFlightStore(StoreConformance):
    @pytest.fixture
    def store(self) -> PruneStore:
        memory = MemoryStore()
        return Behind(SingleFlightStore(memory), memory)


class Slow(MemoryStore):
    """Answers when ``others`` are known to wait for the answer, or would be if they did."""

    def __init__(self, others: threading.Barrier) -> None:
        super().__init__()
        self._others = others

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        self._others.wait(timeout=10)
        threading.Event().wait(0.3)
        return super().get(name, limit_bytes=limit_bytes)


def _ask(store: SingleFlightStore, name: str, others: threading.Barrier, is_first: bool) -> bytes:
    if not is_first:
        others.wait(timeout=10)  # the first one is inside
    return store.get(name, limit_bytes=5)


def test_eight_that_want_one_object_make_one_request() -> None:
    others = threading.Barrier(8)
    memory = Slow(others)
    memory.create("a", b"x")
    store = SingleFlightStore(memory)
    answers = at_once([partial(_ask, store, "a", others, number == 0) for number in range(8)])
    assert answers == [b"x"] * 8
    assert store.traffic.gets == 1


def test_they_share_an_error_too_and_the_next_one_asks_again() -> None:
    others = threading.Barrier(4)
    memory = Slow(others)
    store = SingleFlightStore(memory)

    def refused(is_first: bool) -> type[Exception]:
        with pytest.raises(ObjectMissing) as caught:
            _ask(store, "a", others, is_first)
        return caught.type

    assert at_once([partial(refused, number == 0) for number in range(4)]) == [ObjectMissing] * 4
    assert store.traffic.gets == 1
    memory._others = threading.Barrier(1)
    memory.create("a", b"x")
    assert store.get("a", limit_bytes=5) == b"x"


def test_other_limits_are_other_requests() -> None:
    """Whoever allows less must not be handed more."""
    memory = MemoryStore()
    memory.create("a", b"12345")
    store = SingleFlightStore(memory)
    assert store.get("a", limit_bytes=5) == b"12345"
    with pytest.raises(Exception, match="larger than the 4"):
        store.get("a", limit_bytes=4)
