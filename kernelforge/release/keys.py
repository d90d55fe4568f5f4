"""Ed25519 keys as values: public ones that somebody trusts, and the private one that signs.

A key id is the sha256 of the public key in its standard form (DER, SubjectPublicKeyInfo), so that anybody can work it
out: ``openssl pkey -pubin -in KEY.pub -outform DER | sha256sum``. Files hold PEM. Nothing here knows what is signed,
and a private key never leaves through ``repr``, a log or an error.

Signatures are made through securesystemslib and checked with cryptography, which that library is made of: importing its
signers imports boto3 where that is installed, 130 ms that every pod would pay for a check of 0.1 ms.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernelforge.errors import ToolchainError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from securesystemslib.signer import CryptoSigner

# A PEM of either kind has about 120 bytes; nobody's key is larger than this.
PEM_LIMIT_BYTES = 16 * 1024


@dataclass(frozen=True)
class PublicKey:
    """A key that signatures are checked with; ``der`` is its SubjectPublicKeyInfo. Equal keys are equal."""

    der: bytes = field(repr=False)

    @property
    def key_id(self) -> str:
        """64 hexadecimal digits."""
        return hashlib.sha256(self.der).hexdigest()

    def __str__(self) -> str:
        return f"key {self.key_id[:12]}"

    def __repr__(self) -> str:
        return f"PublicKey(key_id={self.key_id!r})"

    @classmethod
    def from_pem(cls, pem: bytes, *, where: str = "key") -> PublicKey:
        """The key in ``pem``; ``UsageError`` for anything but one public Ed25519 key."""
        _require("cryptography")
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        if b"PRIVATE KEY" in pem:
            # The text of the error must not quote the file.
            raise _refused("this is a private key, which belongs to whoever signs alone", _WANT_PUBLIC, where)
        try:
            key = load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            raise _refused("there is no public key in PEM form here", _WANT_PUBLIC, where) from None
        if not isinstance(key, Ed25519PublicKey):
            raise _refused(f"a key for Ed25519 is needed, this is {type(key).__name__}", _WANT_PUBLIC, where)
        return cls(_der(key))

    def to_pem(self) -> bytes:
        """What ``from_pem`` reads."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

        return load_der_public_key(self.der).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        """Whether ``signature`` was made over exactly ``data`` with the private half of this key."""
        _require("cryptography")
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_der_public_key

        key = load_der_public_key(self.der)
        assert isinstance(key, Ed25519PublicKey)
        try:
            key.verify(signature, data)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """The private key of a release's signer."""

    def __init__(self, signer: CryptoSigner, public: PublicKey) -> None:
        self._signer = signer
        self._public = public

    def __repr__(self) -> str:
        return f"SigningKey(key_id={self._public.key_id!r})"

    @property
    def public(self) -> PublicKey:
        """The key that its signatures are checked with."""
        return self._public

    @property
    def signer(self) -> CryptoSigner:
        """The same key for the library that signs."""
        return self._signer

    @classmethod
    def new(cls) -> SigningKey:
        """A key that nobody has had before."""
        _require("cryptography")
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls._of(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes, *, where: str = "key") -> SigningKey:
        """The key in ``pem``; ``UsageError``, which quotes nothing, for anything but one private Ed25519 key.

        A key under a password is refused: there is nobody to type it where releases are signed.
        """
        _require("cryptography")
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(pem, password=None)
        except TypeError:
            hint = "take the password off with 'openssl pkey', and keep the result where only the signer reads it"
            raise _refused("the private key is encrypted with a password", hint, where) from None
        except (ValueError, UnsupportedAlgorithm):
            raise _refused("there is no private key in PEM form here", _WANT_PRIVATE, where) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise _refused(f"a key for Ed25519 is needed, this is {type(key).__name__}", _WANT_PRIVATE, where)
        return cls._of(key)

    def to_pem(self) -> bytes:
        """What ``from_pem`` reads: the secret itself, for a file that only its owner can read."""
        return self._signer.private_bytes

    @classmethod
    def _of(cls, key: Ed25519PrivateKey) -> SigningKey:
        _require("securesystemslib")
        from securesystemslib.signer import CryptoSigner, SSlibKey

        public = PublicKey(_der(key.public_key()))
        return cls(CryptoSigner(key, SSlibKey.from_crypto(key.public_key(), keyid=public.key_id)), public)


def read_public_key(path: Path) -> PublicKey:
    """The key in a file; ``UsageError`` for a file that cannot be read or holds something else."""
    try:
        with open(path, "rb") as file:
            pem = file.read(PEM_LIMIT_BYTES)
    except OSError as error:
        problem = f"the public key cannot be read: {error.strerror or error}"
        raise _refused(problem, _WANT_PUBLIC, str(path)) from error
    return PublicKey.from_pem(pem, where=str(path))


_WANT_PUBLIC = "give the file that 'kernelforge sign --new-key' ended in .pub"
_WANT_PRIVATE = "make one with 'kernelforge sign --new-key FILE'"


def _der(key: Ed25519PublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _refused(problem: str, hint: str, where: str) -> UsageError:
    return UsageError(problem, hint=hint, where=where)


def _require(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        hint = "pip install 'kernelforge[sign]'"
        raise ToolchainError(f"signatures need {library}, which is not installed", hint=hint)
