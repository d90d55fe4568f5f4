"""Stores for the tests of wrappers: one that lists in pages and fails on purpose, one that writes behind a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kernelforge.store.interface import Page, PruneStore, ReadStore, RemoteStore, StoredObject, Traffic
from kernelforge.store.memory import MemoryStore

PAGE = 2


class PagedMemory(MemoryStore, RemoteStore):
    """Pages of two objects. A call raises the next error of ``before``, or works and then raises that of ``after``."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Exception | None] = []
        self.after: list[Exception | None] = []

    def page(self, prefix: str, after: str | None) -> Page:
        found = sorted(super().listed(prefix), key=lambda entry: entry.name)
        start = int(after or 0)
        is_last = start + PAGE >= len(found)
        return self._faulty(lambda: (found[start : start + PAGE], None if is_last else str(start + PAGE)))

    def refuses_damage(self, name: str) -> bool:
        return True

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        return self._faulty(lambda: super(PagedMemory, self).get_versioned(name, limit_bytes=limit_bytes))

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        self._faulty(lambda: super(PagedMemory, self).replace(name, data, version=version))

    def delete(self, name: str, *, version: str | None = None) -> None:
        self._faulty(lambda: super(PagedMemory, self).delete(name, version=version))

    def _faulty(self, call: Callable[[], Any]) -> Any:
        for_this = self.before.pop(0) if self.before else None
        if for_this is not None:
            raise for_this
        answer = call()
        lost = self.after.pop(0) if self.after else None
        if lost is not None:
            raise lost
        return answer


class Behind(PruneStore):
    """Reads through ``reader``, does everything else at ``origin``: a whole store out of a wrapper that only reads."""

    def __init__(self, reader: ReadStore, origin: PruneStore) -> None:
        self._reader = reader
        self._origin = origin

    @property
    def location(self) -> str:
        return self._reader.location

    @property
    def traffic(self) -> Traffic:
        return self._reader.traffic

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        return self._reader.get(name, limit_bytes=limit_bytes)

    def size(self, name: str) -> int:
        return self._reader.size(name)

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        return self._origin.get_versioned(name, limit_bytes=limit_bytes)

    def create(self, name: str, data: bytes) -> bool:
        return self._origin.create(name, data)

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        self._origin.replace(name, data, version=version)

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        return self._origin.listed(prefix)

    def delete(self, name: str, *, version: str | None = None) -> None:
        self._origin.delete(name, version=version)
