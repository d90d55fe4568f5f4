"""A store on which something else happens in the middle of what its caller does: before a request of given number."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from kernelforge.release import channels, pins, publish
from kernelforge.store import announcements
from kernelforge.store.interface import PruneStore, StoredObject, Traffic
from tests.aging_store import AgingStore

_T = TypeVar("_T")


class Meanwhile(PruneStore):
    """Requests go to ``inner``, one at a time; before the ``at``-th one comes ``happens``, which may use ``inner``."""

    def __init__(self, inner: PruneStore, at: int, happens: Callable[[], None]) -> None:
        self._inner = inner
        self._at = at
        self._happens = happens
        self._one_at_a_time = threading.Lock()
        self.requests = 0

    @property
    def location(self) -> str:
        return self._inner.location

    @property
    def traffic(self) -> Traffic:
        return self._inner.traffic

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        return self._call(lambda: self._inner.get(name, limit_bytes=limit_bytes))

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        return self._call(lambda: self._inner.get_versioned(name, limit_bytes=limit_bytes))

    def size(self, name: str) -> int:
        return self._call(lambda: self._inner.size(name))

    def create(self, name: str, data: bytes) -> bool:
        return self._call(lambda: self._inner.create(name, data))

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        self._call(lambda: self._inner.replace(name, data, version=version))

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        yield from self._call(lambda: list(self._inner.listed(prefix)))

    def delete(self, name: str, *, version: str | None = None) -> None:
        self._call(lambda: self._inner.delete(name, version=version))

    def _call(self, request: Callable[[], _T]) -> _T:
        with self._one_at_a_time:
            self.requests += 1
            if self.requests == self._at:
                self._happens()
            return request()


class Waiter:
    """Publishers of a test that wait for a sweep: by the store's clock, and so that the test sees them wait."""

    def __init__(self, store: AgingStore, patch: pytest.MonkeyPatch) -> None:
        self.waits = threading.Event()
        self._store = store
        for module in (channels, publish, pins):
            patch.setattr(module, "sweep_since", self._sweep_since)

    def _sweep_since(self, store: PruneStore, made: announcements.Announcement) -> bool:
        return announcements.sweep_since(store, made, now_s=self._store.now_s, pause=self._pause)

    def _pause(self, seconds: float) -> None:
        self.waits.set()
        time.sleep(0.0005)

    def start(self, work: Callable[[], None]) -> Callable[[], BaseException | None]:
        """Let ``work`` run until it has ended or waits; the result waits for its end, and is what it raised."""
        raised: list[BaseException] = []
        self.waits.clear()

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 (the caller looks at it)
                raised.append(error)
            finally:
                self.waits.set()

        thread = threading.Thread(target=run)
        thread.start()
        self.waits.wait()

        def end() -> BaseException | None:
            thread.join()
            return raised[0] if raised else None

        return end
