"""Arguments of ``load`` that say what happens on a miss and how long to wait: senseless ones are refused first."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kernelforge.errors import ObjectMissing, StoreUnavailable, UsageError
from kernelforge.loader.budget import Budget
from kernelforge.store.interface import Traffic
from kernelforge.store.memory import MemoryStore
from tests.loader.conftest import Release

COMPILE = "kernelforge.builder.single:compile_missing"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policy": "lenient"}, "no policy 'lenient'"),
        ({"policy": "jit"}, "compile_missing=None names no function"),
        ({"policy": "jit", "compile_missing": "kernelforge.builder.single"}, "names no function"),
        ({"policy": "jit", "compile_missing": "a b:c"}, "names no function"),
        ({"policy": "jit", "compile_missing": print}, "names no function"),
        ({"compile_missing": COMPILE}, "do nothing under the policy 'strict'"),
        ({"misses": "folder"}, "do nothing under the policy 'strict'"),
        ({"budget_s": 0}, "leaves no time"),
        ({"budget_s": -1.0}, "leaves no time"),
        ({"budget_s": float("nan")}, "leaves no time"),
    ],
)
def test_senseless_arguments_are_refused_before_anything_is_read(
    release: Release, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        release.load(**options)
    assert release.store.traffic.requests == 1  # what the fixture published


def test_the_compile_function_is_not_imported_by_the_pod(release: Release) -> None:
    """It would bring the compiler into the serving process; a wrong name shows at the first miss, as its error."""
    assert len(release.load(policy="jit", compile_missing="no_such_module:function")) == 3


class TestBudget:
    def test_a_bound_store_answers_as_the_store_does(self) -> None:
        store = MemoryStore()
        store.create("a", b"12")
        bound = Budget(20.0).bound(store)
        assert (bound.get("a", limit_bytes=2), bound.size("a"), bound.location) == (b"12", 2, "memory:")
        assert bound.traffic == store.traffic != Traffic()
        with pytest.raises(ObjectMissing):
            bound.get("b", limit_bytes=2)

    def test_a_store_that_hangs_is_left_when_the_budget_is_spent(self) -> None:
        class Hanging(MemoryStore):
            def get(self, name: str, *, limit_bytes: int) -> bytes:
                threading.Event().wait(30)
                raise AssertionError("nobody waits that long")

        bound = Budget(0.2).bound(Hanging())
        with pytest.raises(StoreUnavailable, match="complete answer"):
            bound.get("a", limit_bytes=1)
        for call in (lambda: bound.get("a", limit_bytes=1), lambda: bound.size("a")):
            with pytest.raises(StoreUnavailable, match=r"the 0\.2 s of the load were spent"):
                call()
