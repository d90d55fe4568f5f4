"""Equal reads at once share one request: threads of a process that load the same release ask for the same pack."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from kernelforge.store.interface import ReadStore, Traffic


class SingleFlightStore(ReadStore):
    """``store``, which is asked once for all callers that want the same object at the same time.

    They share its bytes, or its error. Nothing is kept: the next call asks again.
    """

    def __init__(self, store: ReadStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._in_flight: dict[tuple[str, int], Future[bytes]] = {}

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def traffic(self) -> Traffic:
        return self._store.traffic

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        wanted = name, limit_bytes
        with self._lock:
            flight = self._in_flight.get(wanted)
            is_mine = flight is None
            if flight is None:
                flight = self._in_flight[wanted] = Future()
        if is_mine:
            self._fly(wanted, flight)
        return flight.result()

    def size(self, name: str) -> int:
        return self._store.size(name)

    def _fly(self, wanted: tuple[str, int], flight: Future[bytes]) -> None:
        name, limit_bytes = wanted
        try:
            flight.set_result(self._store.get(name, limit_bytes=limit_bytes))
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is raised for each who waits)
            flight.set_exception(error)
        finally:
            with self._lock:
                del self._in_flight[wanted]
