"""A ref is believed only if it is this channel's, signed, young enough and not older than one that was seen."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import (
    FormatUnknown,
    LockfileExpired,
    LockfileRolledBack,
    ObjectCorrupt,
    ObjectMissing,
    UntrustedLockfile,
    UsageError,
)
from kernelforge.release.envelope import seal
from kernelforge.release.keys import SigningKey
from kernelforge.release.refs import (
    MAX_SERIAL,
    PAYLOAD_TYPE,
    SIZE_LIMIT_BYTES,
    Ref,
    check_serial,
    claimed_ref,
    expires_soon,
    read_ref,
)
from kernelforge.store.layout import ref_name
from kernelforge.store.memory import MemoryStore
from tests.release.channel_world import SIGNER, START, STRANGER

REF = Ref(
    deployment="qwen3-8b",
    channel="prod",
    lock=Digest.of(b"lock"),
    serial=7,
    issued=START,
    expires=START + timedelta(days=90),
    previous=Digest.of(b"before"),
    restored=None,
    back_to=6,
    actor="ann",
    reason="ünïcode is fine",
)
LONGEST = replace(REF, deployment="d" * 100, channel="c" * 100, actor="🙂" * 500, reason="🙂" * 500, serial=MAX_SERIAL)


def sealed(ref: Ref = REF, key: SigningKey = SIGNER) -> bytes:
    return seal(ref.to_bytes(), PAYLOAD_TYPE, key)


def read(data: bytes, deployment: str = "qwen3-8b", channel: str = "prod", *, days: int = 0) -> Ref:
    store = MemoryStore()
    store.create(ref_name(deployment, channel), data)
    return read_ref(store, deployment, channel, trusted=[SIGNER.public], now=START + timedelta(days=days))


@pytest.mark.parametrize("ref", [REF, LONGEST, replace(REF, previous=None, restored=2, back_to=None, reason="")])
def test_a_signed_ref_is_read_back(ref: Ref) -> None:
    data = sealed(ref)
    assert len(data) <= SIZE_LIMIT_BYTES
    assert read(data, ref.deployment, ref.channel) == ref
    assert claimed_ref(data, where="here") == ref


@pytest.mark.parametrize("place", ["qwen3-8b/canary", "llama-70b/prod", "prod/qwen3-8b"])
def test_a_ref_that_was_copied_from_another_channel_is_refused(place: str) -> None:
    """Whoever can write to the store could otherwise point production at what canary tries."""
    with pytest.raises(UntrustedLockfile, match="signed for qwen3-8b/prod") as caught:
        read(sealed(), *place.split("/"))
    assert caught.value.reason == "misplaced"


def test_a_ref_of_a_stranger_is_refused() -> None:
    with pytest.raises(UntrustedLockfile) as caught:
        read(sealed(key=STRANGER))
    assert caught.value.reason == "foreign"


def test_an_altered_ref_is_refused() -> None:
    """The signature of one ref under the payload of another."""
    good, other = json.loads(sealed()), json.loads(sealed(replace(REF, lock=Digest.of(b"evil"))))
    with pytest.raises(UntrustedLockfile) as caught:
        read(json.dumps({**good, "payload": other["payload"]}).encode())
    assert caught.value.reason == "altered"


def test_what_was_signed_as_something_else_is_no_ref() -> None:
    with pytest.raises(UntrustedLockfile, match=r"not 'application/vnd\.kernelforge\.ref"):
        read(seal(REF.to_bytes(), "application/vnd.in-toto+json", SIGNER))


def test_a_ref_ends_at_its_last_second() -> None:
    assert read(sealed(), days=89) == REF
    with pytest.raises(LockfileExpired, match="ended at 2027-05-01T09:30:00Z") as caught:
        read(sealed(), days=90)
    assert f"kernelforge promote qwen3-8b/prod {REF.lock}" in caught.value.hint


def test_two_weeks_before_its_end_people_are_told() -> None:
    assert not expires_soon(REF, REF.expires - timedelta(days=14))
    assert expires_soon(REF, REF.expires - timedelta(days=13, hours=23))


def test_a_channel_that_was_never_moved_is_missing() -> None:
    with pytest.raises(ObjectMissing):
        read_ref(MemoryStore(), "qwen3-8b", "prod", trusted=[SIGNER.public], now=START)


def test_a_ref_is_read_up_to_its_largest_size() -> None:
    with pytest.raises(ObjectCorrupt, match="larger than"):
        read(sealed() + b" " * SIZE_LIMIT_BYTES)


@pytest.mark.parametrize(("seen", "is_older"), [(0, False), (6, False), (7, False), (8, True)])
def test_a_serial_never_goes_back(seen: int, is_older: bool) -> None:
    if not is_older:
        check_serial(REF, seen, where="here")
        return
    with pytest.raises(LockfileRolledBack, match="serial 7 of qwen3-8b/prod is older than serial 8"):
        check_serial(REF, seen, where="here")


@pytest.mark.parametrize(
    "change",
    [
        {"serial": 0},
        {"serial": MAX_SERIAL + 1},
        {"restored": 7},
        {"back_to": 0},
        {"expires": START},
        {"actor": "a\x1b[2Jb"},
        {"reason": "two\nlines"},
        {"reason": "x" * 501},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_never_signed(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not a ref"):
        replace(REF, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"serial": "7"},
        {"serial": 7.0},
        {"serial": True},
        {"serial": 0},
        {"lock": "latest"},
        {"lock": None},
        {"expires": "2027-05-01"},
        {"expires": "2027-05-01T09:30:00+02:00"},
        {"expires": "2027-02-30T09:30:00Z"},
        {"expires": None},
        {"restored": 9},
        {"reason": None},
        {"more": 1},
    ],
    ids=str,
)
def test_a_signed_ref_is_read_strictly(change: dict[str, Any]) -> None:
    """An end under another spelling would be no end."""
    payload = json.dumps({**REF.to_json(), **change}).encode()
    with pytest.raises(UntrustedLockfile, match="not a ref"):
        read(seal(payload, PAYLOAD_TYPE, SIGNER))


def test_a_later_format_is_not_damage() -> None:
    payload = json.dumps({**REF.to_json(), "schema": "kernelforge.ref/2"}).encode()
    with pytest.raises(FormatUnknown):
        read(seal(payload, PAYLOAD_TYPE, SIGNER))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"payload": 1}', b'{"payload": "=="}'])
def test_bytes_that_are_no_envelope_claim_nothing(data: bytes) -> None:
    with pytest.raises(ObjectCorrupt, match="not a signed ref"):
        claimed_ref(data, where="here")
