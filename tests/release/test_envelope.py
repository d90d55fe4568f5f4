"""An envelope shows its payload only after a trusted key's signature over it was found right."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from kernelforge.errors import UntrustedLockfile, UsageError
from kernelforge.release.envelope import SIZE_LIMIT_BYTES, open_envelope, seal
from kernelforge.release.keys import PublicKey, SigningKey
from tests.release.signed import NEXT, OURS, STRANGER

KIND = "application/x-test"
PAYLOAD = b"what is signed"
SEALED = seal(PAYLOAD, KIND, OURS)


def opened(data: bytes, *trusted: PublicKey, kind: str = KIND) -> bytes:
    return open_envelope(data, payload_type=kind, trusted=trusted or (OURS.public,), where="here")


def reason(data: bytes, *trusted: PublicKey, kind: str = KIND) -> str:
    with pytest.raises(UntrustedLockfile) as refusal:
        opened(data, *trusted, kind=kind)
    assert str(refusal.value).startswith("here: ")
    return refusal.value.reason


def changed(**members: Any) -> bytes:
    return json.dumps({**json.loads(SEALED), **members}).encode()


def signatures_of(*envelopes: bytes) -> list[dict[str, str]]:
    return [signature for data in envelopes for signature in json.loads(data)["signatures"]]


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_what_was_sealed_is_opened_and_equal_things_are_sealed_equally() -> None:
    assert opened(SEALED) == PAYLOAD
    assert seal(PAYLOAD, KIND, SigningKey.from_pem(OURS.to_pem())) == SEALED


@pytest.mark.parametrize("payload", [b"", b"\xff\xfe not json", b"[" * 100_000, b"\x00" * 1000])
def test_the_payload_is_not_parsed(payload: bytes) -> None:
    """Bytes that no parser would take come out as they went in: nobody looked at them."""
    assert opened(seal(payload, KIND, OURS)) == payload


def test_any_signer_of_several_may_be_the_trusted_one() -> None:
    """While a key is replaced by the next, both sign, and each pod trusts the one that it knows."""
    both = changed(signatures=signatures_of(SEALED, seal(PAYLOAD, KIND, NEXT)))
    assert opened(both, OURS.public) == opened(both, NEXT.public) == opened(both, NEXT.public, OURS.public) == PAYLOAD
    assert opened(SEALED, STRANGER.public, OURS.public) == PAYLOAD
    assert reason(both, STRANGER.public) == "foreign"


def test_one_bad_signature_of_a_trusted_key_is_not_outvoted() -> None:
    forged = {**signatures_of(SEALED)[0], "keyid": NEXT.public.key_id}
    assert reason(changed(signatures=[*signatures_of(SEALED), forged]), OURS.public, NEXT.public) == "altered"


@pytest.mark.parametrize(
    "data",
    [
        changed(payload=base64_text(b"another payload")),
        changed(payload=base64_text(PAYLOAD + b"\n")),
        changed(signatures=[{"keyid": OURS.public.key_id, "sig": base64_text(bytes(64))}]),
        changed(signatures=[{"keyid": OURS.public.key_id, "sig": ""}]),
        changed(signatures=[{**signatures_of(seal(PAYLOAD, KIND, STRANGER))[0], "keyid": OURS.public.key_id}]),
        changed(signatures=signatures_of(seal(PAYLOAD, "another/type", OURS))),
        changed(payloadType="another/type"),
    ],
    ids=["payload", "one byte more", "zeros", "no bytes", "stranger under our id", "made for another type", "type"],
)
def test_anything_that_was_changed_is_noticed(data: bytes) -> None:
    assert reason(data) == "altered"


def test_a_signature_over_one_kind_of_payload_is_none_over_another() -> None:
    """Else a signed ref could be shown as a statement about a lockfile, or the other way round."""
    assert reason(SEALED, kind="another/type") == "altered"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"not json",
        b"[]",
        b"{}",
        SEALED[:-10],
        b"[" * 100_000,
        b'{"payload":' * 10_000,
        changed(extra=1),
        changed(payload=None),
        changed(payload="****"),
        changed(signatures={}),
        changed(signatures=[{"keyid": OURS.public.key_id}]),
        changed(signatures=signatures_of(SEALED, SEALED)),
        SEALED.replace(b'"payloadType"', b'"payload":"", "payloadType"'),
        b" " * SIZE_LIMIT_BYTES + SEALED,
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_no_envelope_is_refused(data: bytes) -> None:
    assert reason(data) == "altered"


def test_an_envelope_without_signatures_is_nobodys() -> None:
    assert reason(changed(signatures=[])) == "foreign"


def test_a_foreign_key_id_cannot_write_on_the_terminal() -> None:
    with pytest.raises(UntrustedLockfile) as refusal:
        opened(changed(signatures=[{"keyid": "\x1b[2J" + "x" * 100_000, "sig": ""}]))
    assert "\x1b" not in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_trusting_nobody_is_not_trusting_everybody() -> None:
    with pytest.raises(UsageError, match="no key is trusted"):
        open_envelope(SEALED, payload_type=KIND, trusted=(), where="here")


def test_others_that_speak_dsse_agree() -> None:
    """We make signatures through securesystemslib and check them without it: the two have to mean the same bytes."""
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    def theirs(key: PublicKey) -> SSlibKey:
        return SSlibKey.from_crypto(load_der_public_key(key.der), keyid=key.key_id)

    envelope = Envelope.from_dict(json.loads(SEALED))
    assert list(envelope.verify([theirs(OURS.public)], 1)) == [OURS.public.key_id]
    with pytest.raises(VerificationError):
        envelope.verify([theirs(STRANGER.public)], 1)
