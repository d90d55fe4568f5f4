"""Signing again changes nothing while the signature holds, and a lockfile is in the store before its signature."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelforge.errors import LockfileError, LockfileExpired, ObjectMissing
from kernelforge.release.signature import open_signature, signature_path
from kernelforge.release.signing import check_signable, publish_signature, put_beside, sign
from kernelforge.store.layout import blob_name, lock_name, signature_name
from kernelforge.store.memory import MemoryStore
from tests.release.signed import HOUR, NEXT, NOW, OURS, signature, statement
from tests.small_release import LOCK, fill

NAME = signature_name(LOCK.digest, OURS.public.key_id)
LATER = sign(statement(issued=NOW + HOUR), OURS)


def filled() -> MemoryStore:
    store = MemoryStore()
    fill(store)
    return store


class Beside:
    """The signature beside a file, put and read."""

    def __init__(self, folder: Path) -> None:
        self._lockfile = folder / "x.lock.json"
        self._path = signature_path(self._lockfile, OURS.public.key_id)

    def put(self, envelope: bytes, *, renew: bool = False) -> bytes:
        return put_beside(self._lockfile, envelope, LOCK.digest, OURS.public, now=NOW, renew=renew)

    def read(self) -> bytes:
        return self._path.read_bytes()

    def spoil(self, data: bytes) -> None:
        self._path.write_bytes(data)


class InStore:
    """The signature in a store, put and read."""

    def __init__(self, folder: Path) -> None:
        self.store = filled()

    def put(self, envelope: bytes, *, renew: bool = False) -> bytes:
        return publish_signature(self.store, LOCK, envelope, OURS.public, now=NOW, renew=renew)

    def read(self) -> bytes:
        return self.store.get(NAME, limit_bytes=1 << 20)

    def spoil(self, data: bytes) -> None:
        self.store.delete(NAME)
        self.store.create(NAME, data)


@pytest.fixture(params=[Beside, InStore])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Beside | InStore:
    make: Callable[[Path], Beside | InStore] = request.param
    return make(tmp_path)


def test_the_first_signature_stays_while_it_holds(place: Beside | InStore) -> None:
    """A job that runs again must leave git and the store as they are."""
    assert place.put(signature()) == place.read() == signature()
    assert place.put(LATER) == place.read() == signature()


def test_it_is_renewed_by_whoever_says_so(place: Beside | InStore) -> None:
    place.put(signature())
    assert place.put(LATER, renew=True) == place.read() == LATER


def test_one_that_has_ended_is_not_replaced_in_silence(place: Beside | InStore) -> None:
    ended = signature(expires=NOW)
    place.put(ended)
    with pytest.raises(LockfileExpired, match="--renew"):
        place.put(LATER)
    assert place.read() == ended


@pytest.mark.parametrize("damage", [b"", b"half a signa", signature(key=NEXT)], ids=["empty", "cut", "foreign"])
def test_a_damaged_one_is_replaced_and_that_is_told(
    place: Beside | InStore, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    place.put(signature())
    place.spoil(damage)
    with caplog.at_level(logging.WARNING):
        assert place.put(LATER) == place.read() == LATER
    assert "replacing a signature that is none" in caplog.text


def test_a_published_signature_has_its_lockfile_and_packs() -> None:
    store = filled()
    publish_signature(store, LOCK, signature(), OURS.public, now=NOW, renew=False)
    assert store.get(lock_name(LOCK.digest), limit_bytes=1 << 20) == LOCK.to_bytes()
    open_signature(store.get(NAME, limit_bytes=1 << 20), LOCK.digest, OURS.public, now=NOW, where="here")


def test_nothing_is_published_while_a_pack_is_missing() -> None:
    store = filled()
    store.delete(blob_name(LOCK.packs["b200"].blob.stored_digest))
    with pytest.raises(ObjectMissing):
        publish_signature(store, LOCK, signature(), OURS.public, now=NOW, renew=False)
    assert not list(store.names("v1/locks/"))


def test_bytes_that_no_build_wrote_are_not_signed() -> None:
    """They would be read as the same release and found under another digest."""
    check_signable(LOCK.to_bytes(), LOCK, where="x")
    with pytest.raises(LockfileError, match="not the bytes that a build wrote"):
        check_signable(LOCK.to_bytes() + b"\n", LOCK, where="x")
