from __future__ import annotations

import gc
import os
import threading
import weakref

import pytest

from kernelforge.errors import StoreUnavailable
from kernelforge.store.deadline import call_within
from tests.store.conformance import at_once


def test_results_and_errors_come_through() -> None:
    assert call_within(5, lambda: 3, where="here") == 3
    with pytest.raises(KeyError, match="gone"):
        call_within(5, lambda: {}["gone"], where="here")


def test_a_call_that_hangs_lets_its_caller_go_and_disturbs_no_later_one() -> None:
    is_over = threading.Event()
    with pytest.raises(StoreUnavailable, match=r"0\.05 s"):
        call_within(0.05, is_over.wait, where="here")
    assert [call_within(5, lambda n=number: n, where="here") for number in range(3)] == [0, 1, 2]
    is_over.set()
    assert [call_within(5, lambda n=number: n, where="here") for number in range(3)] == [0, 1, 2]


def test_threads_are_used_again() -> None:
    """A new thread for each call cost a third of a small read."""
    names = {call_within(5, threading.get_ident, where="here") for _ in range(50)}
    assert len(names) == 1


def test_calls_inside_calls_do_not_wait_for_each_other() -> None:
    def nested(depth: int) -> int:
        return call_within(5, lambda: nested(depth - 1) + 1, where="here") if depth else 0

    assert at_once([lambda: nested(4)] * 8) == [4] * 8


def test_nothing_of_a_call_is_kept_alive() -> None:
    """Packs have megabytes, and an idle thread would keep the last one for ever."""

    class Large:
        pass

    held = []

    def make() -> Large:
        made = Large()
        held.append(weakref.ref(made))
        return made

    call_within(5, make, where="here")
    call_within(5, lambda: None, where="here")
    gc.collect()
    assert held[0]() is None


def test_a_forked_child_has_threads_of_its_own() -> None:
    call_within(5, lambda: None, where="here")
    child = os.fork()
    if child == 0:
        os._exit(call_within(5, lambda: 7, where="here"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
