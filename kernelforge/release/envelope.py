"""Signed bytes: a DSSE envelope around a payload whose meaning is no concern of this module.

Opening one checks, in this order: its size, its outer JSON, the kind of its payload, a signature by a trusted key over
the payload's bytes. Only then does a caller get to see the payload, so nobody parses what nobody trusted has signed.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelforge import json_values
from kernelforge.errors import UntrustedLockfile, UsageError

if TYPE_CHECKING:
    from kernelforge.release.keys import PublicKey, SigningKey

# A statement has about 2 KB, a ref less than 1 KB.
SIZE_LIMIT_BYTES = 256 * 1024


def seal(payload: bytes, payload_type: str, key: SigningKey) -> bytes:
    """The envelope, as JSON. The same payload and key give the same bytes."""
    from securesystemslib.dsse import Envelope

    envelope = Envelope(payload, payload_type, {})
    envelope.sign(key.signer)
    return (json.dumps(envelope.to_dict(), sort_keys=True, separators=(",", ":")) + "\n").encode()


def open_envelope(data: bytes, *, payload_type: str, trusted: Sequence[PublicKey], where: str) -> bytes:
    """The payload, of which one of ``trusted`` has signed every byte together with ``payload_type``.

    ``UntrustedLockfile`` otherwise; its ``reason`` is 'foreign' if none of ``trusted`` claims to have signed, else
    'altered'. ``UsageError`` if nobody is trusted.
    """
    if not trusted:
        raise UsageError("no key is trusted, so no signature can be", hint="give the public key of the signer")
    sealed = _read(data, where)
    if sealed.payload_type != payload_type:
        raise _altered(f"what is signed is {sealed.payload_type[:80]!r}, not {payload_type!r}", where)
    ours = [key for key in trusted if key.key_id in sealed.signatures]
    if not ours:
        signers = ", ".join(sorted(key_id[:12] for key_id in sealed.signatures)) or "nobody"
        raise UntrustedLockfile(
            f"signed by {signers[:120]!r}, trusted are {', '.join(sorted(key.key_id[:12] for key in trusted))}",
            hint="sign with a trusted key, or trust the signer's key after finding out whose it is",
            where=where,
            reason="foreign",
        )
    _check_signature(sealed, ours, where)
    return sealed.payload


@dataclass(frozen=True)
class _Sealed:
    payload: bytes
    payload_type: str
    signatures: dict[str, bytes]


def _check_signature(sealed: _Sealed, keys: Sequence[PublicKey], where: str) -> None:
    """Every trusted key that claims to have signed must have: one bad signature is not outvoted by a good one."""
    signed = _signed_bytes(sealed.payload, sealed.payload_type)
    for key in keys:
        if not key.has_signed(signed, sealed.signatures[key.key_id]):
            raise _altered(f"the signature of {key} is not over these bytes", where)


def _signed_bytes(payload: bytes, payload_type: str) -> bytes:
    """DSSE's pre-authentication encoding: lengths first, so that no two pairs give the same bytes."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _read(data: bytes, where: str) -> _Sealed:
    if len(data) > SIZE_LIMIT_BYTES:
        raise _altered(f"the envelope has {len(data)} bytes, at most {SIZE_LIMIT_BYTES} are read", where)
    try:
        envelope = json_values.members(json_values.parse(data), _ENVELOPE)
        signatures = {found["keyid"]: found["sig"] for found in envelope["signatures"]}
        if len(signatures) != len(envelope["signatures"]):
            raise ValueError("one key has signed twice")
    except ValueError as error:
        raise _altered(f"not a signed envelope: {error}", where) from error
    return _Sealed(envelope["payload"], envelope["payloadType"], signatures)


def _base64(value: object) -> bytes:
    try:
        return base64.b64decode(json_values.text(value), validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error


_SIGNATURE = {"keyid": json_values.text, "sig": _base64}
_ENVELOPE = {
    "payload": _base64,
    "payloadType": json_values.text,
    "signatures": json_values.items(lambda value: json_values.members(value, _SIGNATURE)),
}


def _altered(problem: str, where: str) -> UntrustedLockfile:
    hint = "do not use it; take it again from whoever signed it, and find out who changed it"
    return UntrustedLockfile(problem, hint=hint, where=where, reason="altered")
