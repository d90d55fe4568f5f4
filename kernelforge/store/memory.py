"""A store in this process's memory: for tests and for builds that keep nothing."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from kernelforge.store.interface import (
    PruneStore,
    StoredObject,
    Traffic,
    TrafficMeter,
    compare_with_existing,
    larger_than,
    moved_on,
    no_such_object,
)
from kernelforge.store.layout import check_name


@dataclass(frozen=True, slots=True)
class _Held:
    data: bytes
    modified_s: float
    version: str


class MemoryStore(PruneStore):
    """Objects in a dictionary; two of these share nothing."""

    def __init__(self) -> None:
        self._objects: dict[str, _Held] = {}
        self._versions = itertools.count(1)
        self._lock = threading.Lock()
        self._meter = TrafficMeter()

    @property
    def location(self) -> str:
        return "memory:"

    @property
    def traffic(self) -> Traffic:
        return self._meter.reading()

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        return self.get_versioned(name, limit_bytes=limit_bytes)[0]

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        check_name(name)
        self._meter.add(gets=1)
        held = self._find(name)
        if len(held.data) > limit_bytes:
            raise larger_than(limit_bytes, f"memory: {name}")
        self._meter.add(bytes_read=len(held.data))
        return held.data, held.version

    def size(self, name: str) -> int:
        check_name(name)
        self._meter.add(heads=1)
        return len(self._find(name).data)

    def create(self, name: str, data: bytes) -> bool:
        check_name(name)
        self._meter.add(puts=1)
        with self._lock:
            is_first = name not in self._objects
            if is_first:
                self._objects[name] = self._held(data)
        if not is_first:
            return compare_with_existing(self, name, data)
        self._meter.add(bytes_written=len(data))
        return True

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        check_name(name)
        self._meter.add(puts=1)
        with self._lock:
            self._check_version(name, version)
            self._objects[name] = self._held(data)
        self._meter.add(bytes_written=len(data))

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        self._meter.add(lists=1)
        with self._lock:
            found = [(name, held) for name, held in self._objects.items() if name.startswith(prefix)]
        for name, held in found:
            yield StoredObject(name, len(held.data), held.modified_s, held.version)

    def delete(self, name: str, *, version: str | None = None) -> None:
        check_name(name)
        self._meter.add(deletes=1)
        with self._lock:
            if version is not None and name in self._objects:
                self._check_version(name, version)
            self._objects.pop(name, None)

    def _held(self, data: bytes) -> _Held:
        return _Held(data, time.time(), str(next(self._versions)))

    def _check_version(self, name: str, version: str) -> None:
        held = self._objects.get(name)
        if held is None or held.version != version:
            raise moved_on(f"memory: {name}")

    def _find(self, name: str) -> _Held:
        with self._lock:
            held = self._objects.get(name)
        if held is None:
            raise no_such_object(f"memory: {name}")
        return held
