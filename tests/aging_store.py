"""A store around another one in which a test makes time pass, and in which a caller can die at any request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from kernelforge.store.interface import PruneStore, StoredObject, Traffic

_T = TypeVar("_T")


class Died(BaseException):
    """What a caller meets that is killed at this request. No error of ours, so nothing handles it."""


class AgingStore(PruneStore):
    """Objects get older with ``pass_time``; what was in ``inner`` before is of the time at which this was made.

    After ``die_at(n)`` the n-th request from then on raises ``Died`` before anything happens, or after, and so does
    every later one, until ``revive``.
    """

    def __init__(self, inner: PruneStore) -> None:
        self.inner = inner
        self.passed_s = 0.0
        self.requests = 0
        self._written_at: dict[str, float] = {}
        self._dies_at: int | None = None
        self._is_done_first = False
        self._counting = threading.Lock()

    def now_s(self) -> float:
        """What a clock beside the store shows."""
        return time.time() + self.passed_s

    def pass_time(self, *, days: float = 0, hours: float = 0, seconds: float = 0) -> None:
        """Let time go by."""
        self.passed_s += days * 86400 + hours * 3600 + seconds

    def die_at(self, request: int, *, is_done_first: bool) -> None:
        """Kill the caller at this request, the next one being 1."""
        self._dies_at, self._is_done_first = self.requests + request, is_done_first

    def revive(self) -> bool:
        """Go on with another caller; whether the last one died."""
        died = self._dies_at is not None and self.requests >= self._dies_at
        self._dies_at = None
        return died

    @property
    def location(self) -> str:
        return self.inner.location

    @property
    def traffic(self) -> Traffic:
        return self.inner.traffic

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        return self._call(lambda: self.inner.get(name, limit_bytes=limit_bytes))

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        return self._call(lambda: self.inner.get_versioned(name, limit_bytes=limit_bytes))

    def size(self, name: str) -> int:
        return self._call(lambda: self.inner.size(name))

    def create(self, name: str, data: bytes) -> bool:
        def write() -> bool:
            is_new = self.inner.create(name, data)
            if is_new:
                self._written_at[name] = self.passed_s
            return is_new

        return self._call(write)

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        def write() -> None:
            self.inner.replace(name, data, version=version)
            self._written_at[name] = self.passed_s

        self._call(write)

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        for found in self._call(lambda: list(self.inner.listed(prefix))):
            yield replace(found, modified_s=found.modified_s + self._written_at.get(found.name, 0.0))

    def delete(self, name: str, *, version: str | None = None) -> None:
        self._call(lambda: self.inner.delete(name, version=version))

    def _call(self, request: Callable[[], _T]) -> _T:
        with self._counting:
            self.requests += 1
            number = self.requests
        dies = self._dies_at is not None and number >= self._dies_at
        if dies and not (self._is_done_first and number == self._dies_at):
            raise Died
        result = request()
        if dies:
            raise Died
        return result
