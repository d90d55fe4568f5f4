"""Keys are Ed25519 in PEM form, and a private one shows itself nowhere."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from kernelforge.errors import UsageError
from kernelforge.release.keys import PublicKey, SigningKey, read_public_key
from tests.release.signed import NEXT, OURS

SECRET = OURS.to_pem().splitlines()[1].decode()


def private_pem(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | Ed25519PrivateKey, password: bytes = b""
) -> bytes:
    how: KeySerializationEncryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def public_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_a_key_comes_back_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_bytes(OURS.public.to_pem())
    assert read_public_key(tmp_path / "key.pub") == OURS.public
    assert SigningKey.from_pem(OURS.to_pem()).public == OURS.public
    assert OURS.public != NEXT.public


def test_a_key_id_can_be_worked_out_without_us(tmp_path: Path) -> None:
    """By whoever writes another reader, or looks for a signature by hand."""
    (tmp_path / "key.pub").write_bytes(OURS.public.to_pem())
    command = ["openssl", "pkey", "-pubin", "-in", "key.pub", "-outform", "DER"]
    der = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    assert OURS.public.key_id == subprocess.run("sha256sum", input=der, capture_output=True).stdout[:64].decode()


def test_a_key_made_by_openssl_signs(tmp_path: Path) -> None:
    command = ["openssl", "genpkey", "-algorithm", "ed25519"]
    pem = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    assert len(SigningKey.from_pem(pem).public.key_id) == 64


@pytest.mark.parametrize(
    ("pem", "problem"),
    [
        (b"", "no public key in PEM form"),
        (b"ssh-ed25519 AAAA someone", "no public key in PEM form"),
        (OURS.public.to_pem()[:60], "no public key in PEM form"),
        (public_pem(ec.generate_private_key(ec.SECP256R1())), "Ed25519 is needed"),
        (OURS.to_pem(), "this is a private key"),
    ],
    ids=["empty", "ssh", "cut", "other kind", "private"],
)
def test_what_is_no_public_key_is_refused(pem: bytes, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refusal:
        PublicKey.from_pem(pem, where="a.pub")
    assert str(refusal.value).startswith("a.pub: ")
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    ("pem", "problem"),
    [
        (b"", "no private key in PEM form"),
        (OURS.public.to_pem(), "no private key in PEM form"),
        (OURS.to_pem().splitlines()[1], "no private key in PEM form"),
        (OURS.to_pem()[:-40], "no private key in PEM form"),
        (private_pem(ec.generate_private_key(ec.SECP256R1())), "Ed25519 is needed"),
        (private_pem(Ed25519PrivateKey.generate(), b"secret"), "encrypted with a password"),
    ],
    ids=["empty", "public", "no frame", "cut", "other kind", "encrypted"],
)
def test_what_is_no_private_key_is_refused_without_quoting_it(pem: bytes, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refusal:
        SigningKey.from_pem(pem, where="a.key")
    shown = f"{refusal.value} {refusal.value!r} {refusal.value.__cause__!r}"
    assert not [line for line in pem.splitlines() if len(line) > 30 and line.decode() in shown]


def test_a_private_key_is_not_in_what_is_logged_or_stored() -> None:
    shown = f"{OURS!r} {OURS} {OURS.public!r} {[OURS]} {vars(OURS)}"
    assert SECRET not in shown
    with pytest.raises(TypeError):
        pickle.dumps(OURS)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.pub: the public key cannot be read: No such file"):
        read_public_key(tmp_path / "absent.pub")
