"""A lockfile out of a store is the one that was asked for, or an error."""

from __future__ import annotations

import pytest

from kernelforge.errors import ObjectCorrupt, ObjectMissing
from kernelforge.release.stored_lock import stored_lock
from kernelforge.store.layout import lock_name
from kernelforge.store.memory import MemoryStore
from tests.small_release import LOCK

DATA = LOCK.to_bytes()


class OnceDamaged(MemoryStore):
    """Damages the first answer on its way."""

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        data = super().get(name, limit_bytes=limit_bytes)
        return data if self.traffic.gets > 1 else data[:-1] + b"?"


def test_the_bytes_are_those_of_the_digest() -> None:
    store = MemoryStore()
    store.create(lock_name(LOCK.digest), DATA)
    assert stored_lock(store, LOCK.digest) == DATA
    assert store.traffic.gets == 1


def test_damage_on_the_way_is_read_again() -> None:
    store = OnceDamaged()
    store.create(lock_name(LOCK.digest), DATA)
    assert stored_lock(store, LOCK.digest) == DATA


@pytest.mark.parametrize("data", [b"", DATA + b"\n", b"[" * 100_000])
def test_other_bytes_are_damage(data: bytes) -> None:
    store = MemoryStore()
    store.create(lock_name(LOCK.digest), data)
    with pytest.raises(ObjectCorrupt):
        stored_lock(store, LOCK.digest)


def test_no_bytes_are_a_miss() -> None:
    with pytest.raises(ObjectMissing):
        stored_lock(MemoryStore(), LOCK.digest)
