"""Pins: written once, only for what is there, and removed with a word of what they kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing, UsageError
from kernelforge.release.pins import Pin, list_pins, pin_lock, read_pin, remove_pin
from kernelforge.store.layout import blob_name, lock_name, pin_name
from kernelforge.store.memory import MemoryStore
from tests.small_release import LOCK, fill

PINNED = Pin("audit", LOCK.digest, datetime(2027, 1, 31, 9, 30, tzinfo=timezone.utc))


@pytest.fixture
def store() -> MemoryStore:
    """A store that has the release."""
    filled = MemoryStore()
    fill(filled)
    filled.create(lock_name(LOCK.digest), LOCK.to_bytes())
    return filled


def test_a_pin_is_read_back(store: MemoryStore) -> None:
    assert pin_lock(store, PINNED)
    assert read_pin(store, "audit") == PINNED
    assert list_pins(store) == [PINNED]
    assert remove_pin(store, "audit") == PINNED
    assert list_pins(store) == []


def test_pinning_again_keeps_the_first_date(store: MemoryStore) -> None:
    pin_lock(store, PINNED)
    later = replace(PINNED, pinned=datetime(2028, 1, 1, tzinfo=timezone.utc))
    assert not pin_lock(store, later)
    assert read_pin(store, "audit") == PINNED


def test_a_name_pins_one_lockfile(store: MemoryStore) -> None:
    other = replace(LOCK, packs={}, entries=())
    store.create(lock_name(other.digest), other.to_bytes())
    pin_lock(store, PINNED)
    with pytest.raises(ObjectConflict, match=LOCK.digest.hex) as conflict:
        pin_lock(store, replace(PINNED, lock=other.digest))
    assert "--unpin audit" in conflict.value.hint


@pytest.mark.parametrize(
    "lost", [lock_name(LOCK.digest), blob_name(LOCK.packs["b200"].blob.stored_digest)], ids=["lockfile", "pack"]
)
def test_what_is_not_there_cannot_be_kept(store: MemoryStore, lost: str) -> None:
    store.delete(lost)
    with pytest.raises(ObjectMissing):
        pin_lock(store, PINNED)
    assert list_pins(store) == []


def test_no_such_pin(store: MemoryStore) -> None:
    with pytest.raises(ObjectMissing):
        remove_pin(store, "audit")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 200])
def test_a_name_that_is_none(store: MemoryStore, name: str) -> None:
    with pytest.raises(UsageError):
        pin_lock(store, replace(PINNED, name=name))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"schema":"kernelforge.pin/1"}',
        b'{"schema":"kernelforge.pin/1","lock":"sha256:x","pinned":"2027-01-31T09:30:00Z"}',
        b'{"schema":"kernelforge.pin/1","lock":"%s","pinned":"yesterday"}' % str(Digest.of(b"")).encode(),
    ],
)
def test_a_damaged_pin_is_told(store: MemoryStore, data: bytes) -> None:
    store.create(pin_name("audit"), data)
    with pytest.raises(ObjectCorrupt):
        list_pins(store)
