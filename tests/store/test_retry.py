from __future__ import annotations

import logging

import pytest

from kernelforge.errors import ObjectConflict, ObjectMissing, StoreDenied, StoreUnavailable
from kernelforge.store import PruneStore
from kernelforge.store.retry import TRIES, RetryingStore, Transient
from tests.store.conformance import StoreConformance, at_once
from tests.store.wrapped import PagedMemory


def busy() -> Transient:
    return Transient("busy", hint="later", where="here")


class TestRetryingStore(StoreConformance):
    @pytest.fixture
    def store(self) -> PruneStore:
        return RetryingStore(PagedMemory(), call_s=20)


@pytest.fixture
def memory() -> PagedMemory:
    return PagedMemory()


@pytest.fixture
def store(memory: PagedMemory, monkeypatch: pytest.MonkeyPatch) -> RetryingStore:
    monkeypatch.setattr("kernelforge.store.retry.time.sleep", lambda _: None)
    return RetryingStore(memory, call_s=20)


def test_what_passes_is_tried_again(memory: PagedMemory, store: RetryingStore) -> None:
    store.create("a", b"x")
    memory.before = [busy()] * (TRIES - 1)
    assert store.get("a", limit_bytes=1) == b"x"


def test_tries_end_with_an_error_that_counts_them_and_is_no_transient_one(
    memory: PagedMemory, store: RetryingStore
) -> None:
    memory.before = [busy()] * (TRIES + 1)
    with pytest.raises(StoreUnavailable, match=rf"busy \({TRIES} tries\)") as caught:
        store.get("a", limit_bytes=1)
    assert type(caught.value) is StoreUnavailable
    assert len(memory.before) == 1


@pytest.mark.parametrize("final", [StoreDenied("no", hint=""), StoreUnavailable("down", hint=""), KeyError("bug")])
def test_what_does_not_pass_is_not_tried_again(memory: PagedMemory, store: RetryingStore, final: Exception) -> None:
    memory.before = [final, final]
    with pytest.raises(type(final)):
        store.get("a", limit_bytes=1)
    assert len(memory.before) == 1


def test_no_try_starts_after_the_deadline(
    memory: PagedMemory, store: RetryingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelforge.store.retry.random.uniform", lambda _, longest: 20.1)
    memory.before = [busy()] * 9
    with pytest.raises(StoreUnavailable, match=r"busy \(1 tries\)"):
        store.get("a", limit_bytes=1)


def test_a_page_that_failed_is_asked_for_again_and_nothing_is_seen_twice_or_lost(
    memory: PagedMemory, store: RetryingStore
) -> None:
    """Starting the listing over would show garbage collection some objects twice; going on without the page, none."""
    names = [f"v1/{number}" for number in range(7)]
    for name in names:
        store.create(name, b"x")
    memory.before = [None, busy(), busy(), None, busy()]
    assert list(store.names()) == names
    assert memory.before == []


class TestAnswerLost:
    """The write took effect, and nobody learnt of it."""

    def test_replace_that_took_effect_is_no_conflict(self, memory: PagedMemory, store: RetryingStore) -> None:
        store.create("a", b"first")
        _, version = store.get_versioned("a", limit_bytes=5)
        memory.after = [busy()]
        store.replace("a", b"second", version=version)
        assert store.get("a", limit_bytes=6) == b"second"

    def test_replace_that_did_not_is_a_conflict_when_somebody_else_won(
        self, memory: PagedMemory, store: RetryingStore
    ) -> None:
        store.create("a", b"first")
        _, version = store.get_versioned("a", limit_bytes=5)
        memory.replace("a", b"theirs", version=version)
        memory.before = [busy()]
        with pytest.raises(ObjectConflict):
            store.replace("a", b"second", version=version)

    def test_equal_bytes_of_somebody_else_are_a_conflict_if_no_answer_was_lost(
        self, memory: PagedMemory, store: RetryingStore
    ) -> None:
        """Two that take the same lease in the same words must not both believe that they have it."""
        store.create("a", b"first")
        _, version = store.get_versioned("a", limit_bytes=5)
        memory.replace("a", b"second", version=version)
        with pytest.raises(ObjectConflict):
            store.replace("a", b"second", version=version)

    @pytest.mark.parametrize("is_conditional", [False, True])
    def test_delete(self, memory: PagedMemory, store: RetryingStore, is_conditional: bool) -> None:
        store.create("a", b"first")
        version = store.get_versioned("a", limit_bytes=5)[1] if is_conditional else None
        memory.after = [busy()]
        store.delete("a", version=version)
        with pytest.raises(ObjectMissing):
            store.get("a", limit_bytes=5)


def test_those_who_fail_together_do_not_return_together(
    memory: PagedMemory, store: RetryingStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="kernelforge.store.retry")
    store.create("a", b"x")
    memory.before = [busy()] * (TRIES - 1)  # with one more, a reader that meets all of them would give up
    assert at_once([lambda: store.get("a", limit_bytes=1)] * 32) == [b"x"] * 32
    pauses = [record.args[0] for record in caplog.records if record.msg.startswith("trying again")]
    assert len(set(pauses)) == len(pauses) == TRIES - 1
