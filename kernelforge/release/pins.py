"""Pins: lockfiles that are kept whatever channels and time do, for pods that go by a digest.

A pin is one small object that names a lockfile. Anyone who may write pins may keep things; no pod reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernelforge import json_values
from kernelforge.digest import Digest
from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing
from kernelforge.lockfile import Lockfile
from kernelforge.release.stored_lock import stored_lock
from kernelforge.release.utc import read_utc, utc_text
from kernelforge.store.announcements import announce, sweep_since
from kernelforge.store.blobs import check_blob
from kernelforge.store.documents import from_bytes, to_bytes
from kernelforge.store.interface import PruneStore, ReadStore, WriteStore
from kernelforge.store.layout import PINS_PREFIX, lock_name, pin_name

SCHEMA = "kernelforge.pin/1"
SIZE_LIMIT_BYTES = 4 << 10


@dataclass(frozen=True)
class Pin:
    """``name`` keeps ``lock`` since ``pinned``."""

    name: str
    lock: Digest
    pinned: datetime


def pin_lock(store: WriteStore, pin: Pin) -> bool:
    """Keep a lockfile that is in the store with its packs; False if the name pins it already.

    Garbage collection cannot take it away meanwhile. Raises ``ObjectConflict`` if the name pins another one, and what
    ``stored_lock`` and ``check_blob`` raise.
    """
    pin_name(pin.name)  # refuses what is no name, before anything is written
    announced = announce(store, locks=[pin.lock], blobs=())
    _check(store, pin.lock)
    if sweep_since(store, announced):
        _check(store, pin.lock)
    return _write(store, pin)


def _check(store: ReadStore, digest: Digest) -> None:
    lock = Lockfile.parse(stored_lock(store, digest), where=f"{store.location}: {lock_name(digest)}")
    for pack in lock.packs.values():
        check_blob(store, pack.blob)


def _write(store: WriteStore, pin: Pin) -> bool:
    name = pin_name(pin.name)
    data = to_bytes({"schema": SCHEMA, "lock": str(pin.lock), "pinned": utc_text(pin.pinned)}, where=name)
    try:
        return store.create(name, data)
    except ObjectConflict as error:
        there = read_pin(store, pin.name)
        if there.lock == pin.lock:
            return False
        hint = f"choose another name, or first: kernelforge gc --unpin {pin.name}"
        raise ObjectConflict(f"pins {there.lock} already", hint=hint, where=error.where) from error


def remove_pin(store: PruneStore, name: str) -> Pin:
    """Remove a pin and say what it was; ``ObjectMissing`` if there is none. Nothing is deleted but the pin."""
    pin = read_pin(store, name)
    store.delete(pin_name(name))
    return pin


def read_pin(store: ReadStore, name: str) -> Pin:
    """The pin of this name; ``ObjectMissing``, ``ObjectCorrupt``, ``FormatUnknown``."""
    where = f"{store.location}: {pin_name(name)}"
    members = _members(store.get(pin_name(name), limit_bytes=SIZE_LIMIT_BYTES), where)
    return Pin(name, members["lock"], members["pinned"])


def list_pins(store: PruneStore) -> list[Pin]:
    """All pins, by name."""
    found = []
    for object_name in sorted(store.names(PINS_PREFIX)):
        try:
            found.append(read_pin(store, object_name.removeprefix(PINS_PREFIX).removesuffix(".json")))
        except ObjectMissing:
            continue  # removed since it was listed
    return found


def parse_pin(data: bytes, where: str) -> Digest:
    """The lockfile that a pin's bytes name."""
    lock = _members(data, where)["lock"]
    assert isinstance(lock, Digest)
    return lock


def _members(data: bytes, where: str) -> dict[str, Any]:
    try:
        return json_values.members(from_bytes(data, schema=SCHEMA, where=where), _MEMBERS)
    except ValueError as error:
        raise ObjectCorrupt(f"not a pin: {error}", hint="delete it, then pin again", where=where) from error


def _digest(value: object) -> Digest:
    return Digest.parse(json_values.text(value))


_MEMBERS = {"schema": json_values.text, "lock": _digest, "pinned": read_utc}
