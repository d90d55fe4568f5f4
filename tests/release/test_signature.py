"""A lockfile is signed if a trusted key has signed its sha256, and only then does anybody look inside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelforge.errors import LockfileError, LockfileExpired, StoreUnavailable, UntrustedLockfile, UsageError
from kernelforge.release.envelope import seal
from kernelforge.release.keys import PublicKey
from kernelforge.release.signature import (
    Signatures,
    filed_signatures,
    open_signature,
    signature_path,
    stored_signatures,
    trusted_statement,
)
from kernelforge.release.statement import PAYLOAD_TYPE, Statement
from kernelforge.store.layout import signature_name
from kernelforge.store.memory import MemoryStore
from tests.release.signed import HOUR, NEXT, NOW, OURS, STRANGER, signature, statement
from tests.small_release import LOCK, OTHER

LONG_AGO = NOW - HOUR


def store_with(**signatures: bytes) -> MemoryStore:
    """A store with what stands under the ids of these keys."""
    store, keys = MemoryStore(), {"ours": OURS, "next_": NEXT, "stranger": STRANGER}
    for name, data in signatures.items():
        store.create(signature_name(LOCK.digest, keys[name].public.key_id), data)
    return store


def checked(signatures: Signatures, *trusted: PublicKey) -> Statement:
    return trusted_statement(LOCK.digest, signatures, trusted=trusted or (OURS.public,), now=NOW, where="lock")


def reason(store: MemoryStore, *trusted: PublicKey) -> str:
    with pytest.raises(UntrustedLockfile) as refusal:
        checked(stored_signatures(store, LOCK.digest), *trusted)
    return refusal.value.reason


def test_the_statement_of_a_trusted_key_is_found_by_its_id() -> None:
    store = store_with(ours=signature())
    assert checked(stored_signatures(store, LOCK.digest)) == statement()
    assert (store.traffic.gets, store.traffic.lists) == (1, 0)


def test_a_signature_is_found_beside_a_file(tmp_path: Path) -> None:
    lockfile = tmp_path / "x.lock.json"
    path = signature_path(lockfile, OURS.public.key_id)
    assert path == tmp_path / "x.sig" / f"{OURS.public.key_id}.dsse.json"
    path.parent.mkdir()
    path.write_bytes(signature())
    assert checked(filed_signatures(lockfile)) == statement()


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({}, "unsigned"),
        ({"stranger": signature(key=STRANGER)}, "unsigned"),
        ({"ours": signature(key=STRANGER)}, "foreign"),
        ({"ours": signature(OTHER)}, "altered"),
        ({"ours": signature()[:-20]}, "altered"),
        ({"ours": signature().replace(b"A", b"B", 1)}, "altered"),
        ({"ours": b" " * (1 << 20) + signature()}, "altered"),
        ({"ours": seal(statement().to_bytes(), "application/json", OURS)}, "altered"),
        ({"ours": seal(b"[" * 100_000, PAYLOAD_TYPE, OURS)}, "altered"),
        ({"ours": signature(expires=LONG_AGO)}, "expired"),
        ({"ours": signature(expires=NOW)}, "expired"),
    ],
    ids=[
        "nothing there",
        "another key's only",
        "another key's under our id",
        "about another lockfile",
        "cut",
        "one letter",
        "too large",
        "another type",
        "no statement",
        "expired",
        "ends now",
    ],
)
def test_anything_less_is_refused(stored: dict[str, bytes], expected: str) -> None:
    assert reason(store_with(**stored)) == expected


def test_several_keys_are_trusted_while_one_replaces_the_other() -> None:
    both = (OURS.public, NEXT.public)
    for stored in ({"ours": signature()}, {"next_": signature(key=NEXT)}):
        assert checked(stored_signatures(store_with(**stored), LOCK.digest), *both) == statement()


def test_an_expired_signature_is_passed_over_for_one_that_holds() -> None:
    store = store_with(ours=signature(expires=LONG_AGO), next_=signature(key=NEXT))
    assert checked(stored_signatures(store, LOCK.digest), OURS.public, NEXT.public) == statement()
    assert reason(store, OURS.public, STRANGER.public) == "expired"


def test_a_forged_signature_is_not_passed_over() -> None:
    """Somebody has been at it: that another one is right does not undo that."""
    store = store_with(ours=signature(OTHER), next_=signature(key=NEXT))
    assert reason(store, OURS.public, NEXT.public) == "altered"


def test_a_store_that_does_not_answer_is_not_a_lockfile_without_signature() -> None:
    class Down(MemoryStore):
        def get(self, name: str, *, limit_bytes: int) -> bytes:
            raise StoreUnavailable("no answer", hint="wait", where=name)

    with pytest.raises(StoreUnavailable):
        checked(stored_signatures(Down(), LOCK.digest))


def test_trusting_nobody_is_refused() -> None:
    with pytest.raises(UsageError, match="no key is trusted"):
        trusted_statement(LOCK.digest, lambda key_id: None, trusted=(), now=NOW, where="lock")


def test_an_expired_signature_says_when_it_ended() -> None:
    with pytest.raises(LockfileExpired, match="ended at 2027-01-31T08:30:00Z"):
        open_signature(signature(expires=LONG_AGO), LOCK.digest, OURS.public, now=NOW, where="here")


@pytest.mark.parametrize("what", ["folder", "file for a folder", "pipe"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, what: str) -> None:
    path = signature_path(tmp_path / "x.lock.json", OURS.public.key_id)
    if what == "file for a folder":
        path.parent.write_bytes(b"")
    else:
        path.parent.mkdir()
        (Path.mkdir if what == "folder" else os.mkfifo)(path)
    with pytest.raises((LockfileError, UntrustedLockfile)):
        checked(filed_signatures(tmp_path / "x.lock.json"))
