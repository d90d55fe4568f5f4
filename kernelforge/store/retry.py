"""Asks a store again when it cannot serve now. The one place that retries.

What a backend calls ``Transient`` is tried up to ``TRIES`` times within one deadline. Pauses grow and are random, so
that pods that fail together do not return together. Knows no protocol.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing, StoreUnavailable
from kernelforge.store.deadline import call_within
from kernelforge.store.interface import PruneStore, RemoteStore, StoredObject, Traffic, all_pages

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

TRIES = 5
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 3.0


class Transient(StoreUnavailable):
    """The store cannot serve now; another try may find it better. Callers of a store never see it."""


class RetryingStore(PruneStore):
    """``store``, whose calls end within ``call_s``, all tries included; of a listing, each page is a call."""

    def __init__(self, store: RemoteStore, *, call_s: float) -> None:
        self._store = store
        self._call_s = call_s

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def traffic(self) -> Traffic:
        return self._store.traffic

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        return self._call(lambda: self._store.get(name, limit_bytes=limit_bytes), name)

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        return self._call(lambda: self._store.get_versioned(name, limit_bytes=limit_bytes), name)

    def size(self, name: str) -> int:
        return self._call(lambda: self._store.size(name), name)

    def create(self, name: str, data: bytes) -> bool:
        return self._call(lambda: self._store.create(name, data), name)

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        is_in_doubt = False

        def once() -> None:
            nonlocal is_in_doubt
            try:
                self._store.replace(name, data, version=version)
            except Transient:
                is_in_doubt = True
                raise
            except ObjectConflict:
                # The version is gone, perhaps because an earlier try took effect and its answer was lost on the way.
                if not is_in_doubt or not self._holds(name, data):
                    raise

        self._call(once, name)

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        return all_pages(lambda after: self._call(lambda: self._store.page(prefix, after), prefix))

    def delete(self, name: str, *, version: str | None = None) -> None:
        self._call(lambda: self._store.delete(name, version=version), name)

    def refuses_damage(self, name: str) -> bool:
        """Whether the server refuses an upload whose bytes are not those of its sha256; nothing is kept of it."""
        return self._call(lambda: self._store.refuses_damage(name), name)

    def _holds(self, name: str, data: bytes) -> bool:
        try:
            return self._store.get(name, limit_bytes=len(data)) == data
        except (ObjectCorrupt, ObjectMissing):
            return False

    def _call(self, action: Callable[[], _T], name: str) -> _T:
        ends_at = time.monotonic() + self._call_s
        where = f"{self._store.location}: {name}"
        return call_within(self._call_s, lambda: _retry(action, ends_at), where=where)


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
