"""How long a call to a remote store may take, and how often it is tried.

Time-outs of sockets do not bound a call: a server that sends a byte every two seconds, a name server that does not
answer or a slow credential service passes each of them. So the call runs in a thread of its own, and its caller waits
no longer than the deadline. Knows no protocol.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import TypeVar

from kernelforge.errors import StoreUnavailable

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

TRIES = 5
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 3.0


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds to connect, to wait for the next bytes, and for a whole call with all its tries.

    The last one bounds transfers too: 64 MiB in 20 s need 27 Mbit/s.
    """

    connect_s: float = 2.0
    read_s: float = 3.0
    call_s: float = 20.0


class Transient(StoreUnavailable):
    """The store cannot serve now; another try may find it better. Seen by ``call_within`` only."""


def call_within(call_s: float, action: Callable[[], _T], *, where: str) -> _T:
    """Result of ``action``, tried up to ``TRIES`` times while it raises ``Transient``, or ``StoreUnavailable``.

    Pauses between tries grow and are random, so that pods that fail together do not return together. After ``call_s``
    the caller is free; a try that hangs then ends unseen, which does no harm where objects are immutable.
    """
    ends_at = time.monotonic() + call_s
    future: Future[_T] = Future()

    def work() -> None:
        try:
            future.set_result(_retry(action, ends_at))
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is raised in the caller's thread)
            future.set_exception(error)

    threading.Thread(target=work, name="kernelforge-store", daemon=True).start()
    try:
        return future.result(timeout=call_s)
    except FutureTimeoutError:
        raise StoreUnavailable(
            f"no complete answer within {call_s:g} s", hint="check the endpoint and the network", where=where
        ) from None


def _retry(action: Callable[[], _T], ends_at: float) -> _T:
    pause_limit_s = _FIRST_PAUSE_S
    tries = 0
    while True:
        tries += 1
        try:
            return action()
        except Transient as error:
            pause_s = random.uniform(0, pause_limit_s)
            if tries == TRIES or time.monotonic() + pause_s >= ends_at:
                problem = f"{error.problem} ({tries} tries)"
                raise StoreUnavailable(problem, hint=error.hint, where=error.where) from error
            _log.debug("trying again in %.2f s: %s", pause_s, error)
        time.sleep(pause_s)
        pause_limit_s = min(2 * pause_limit_s, _LONGEST_PAUSE_S)
