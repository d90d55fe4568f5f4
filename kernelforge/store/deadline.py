"""How long a call to a remote store may take, whatever it waits for.

Time-outs of sockets do not bound a call: a server that sends a byte every two seconds, a name server that does not
answer or a slow credential service passes each of them. So the call runs in another thread, and its caller waits no
longer than the deadline. Knows no protocol.
"""

from __future__ import annotations

import collections
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kernelforge.errors import StoreUnavailable

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds to connect, to wait for the next bytes, and for a whole call with all its tries.

    The last one bounds transfers too: 64 MiB in 20 s need 27 Mbit/s.
    """

    connect_s: float = 2.0
    read_s: float = 3.0
    call_s: float = 20.0


def call_within(call_s: float, action: Callable[[], _T], *, where: str) -> _T:
    """Result of ``action``, or what it raises; ``StoreUnavailable`` if neither is there after ``call_s``.

    The caller is free then. An action that hangs ends unseen, which does no harm where objects are immutable.
    """
    answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    _idle_thread().put((action, answers))
    try:
        is_result, answer = answers.get(timeout=call_s)
    except queue.Empty:
        raise StoreUnavailable(
            f"no complete answer within {call_s:g} s", hint="check the endpoint and the network", where=where
        ) from None
    if is_result:
        return answer  # type: ignore[no-any-return]
    try:
        raise answer
    finally:
        del answer  # its traceback holds this frame: a cycle would keep large bytes alive


# Threads are used again: a new one for each call made 1,000 reads of 40 KB take 1.3 times as long as plain botocore's,
# with 32 callers on two cores; now it is 1.1 times. At most as many are kept as calls were ever made at once.
_Jobs = queue.SimpleQueue  # of (action, where its answer goes)
_idle: collections.deque[_Jobs[Any]] = collections.deque()
os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork


def _idle_thread() -> _Jobs[Any]:
    try:
        return _idle.pop()
    except IndexError:
        jobs: _Jobs[Any] = queue.SimpleQueue()
        threading.Thread(target=_serve, args=(jobs,), name="kernelforge-store", daemon=True).start()
        return jobs


def _serve(jobs: _Jobs[Any]) -> None:
    while True:
        action, answers = jobs.get()
        try:
            answer = True, action()
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is raised in the caller's thread)
            answer = False, error
        _idle.append(jobs)
        answers.put(answer)
        del action, answers, answer  # an idle thread keeps nothing alive
