"""A store in this process's memory: for tests and for builds that keep nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from kernelforge.store.interface import (
    PruneStore,
    Traffic,
    TrafficMeter,
    compare_with_existing,
    larger_than,
    no_such_object,
)
from kernelforge.store.layout import check_name


class MemoryStore(PruneStore):
    """Objects in a dictionary; two of these share nothing."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._meter = TrafficMeter()

    @property
    def location(self) -> str:
        return "memory:"

    @property
    def traffic(self) -> Traffic:
        return self._meter.reading()

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        self._meter.add(gets=1)
        data = self._find(name)
        if len(data) > limit_bytes:
            raise larger_than(limit_bytes, f"memory: {name}")
        self._meter.add(bytes_read=len(data))
        return data

    def size(self, name: str) -> int:
        self._meter.add(heads=1)
        return len(self._find(name))

    def create(self, name: str, data: bytes) -> bool:
        check_name(name)
        self._meter.add(puts=1)
        with self._lock:
            is_first = name not in self._objects
            if is_first:
                self._objects[name] = data
        if not is_first:
            return compare_with_existing(self, name, data)
        self._meter.add(bytes_written=len(data))
        return True

    def names(self, prefix: str = "") -> Iterator[str]:
        with self._lock:
            found = [name for name in self._objects if name.startswith(prefix)]
        return iter(found)

    def delete(self, name: str) -> None:
        check_name(name)
        with self._lock:
            self._objects.pop(name, None)

    def _find(self, name: str) -> bytes:
        check_name(name)
        with self._lock:
            data = self._objects.get(name)
        if data is None:
            raise no_such_object(f"memory: {name}")
        return data
