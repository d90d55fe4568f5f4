"""The only name that stored bytes have: one spelling, and nothing else is taken for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelforge.digest import Digest
from kernelforge.errors import InputError

# The vector of FIPS 180-2, appendix B.1.
ABC = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_it_is_sha256() -> None:
    digest = Digest.of(b"abc")
    assert str(digest) == ABC
    assert digest.short == "ba7816bf8f01"


@given(st.binary())
def test_text_round_trip(data: bytes) -> None:
    digest = Digest.of(data)
    assert Digest.parse(str(digest)) == digest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256:",
        ABC[:-1],
        ABC + "0",
        ABC + "\n",
        " " + ABC,
        ABC.removeprefix("sha256:"),
        ABC.upper(),
        ABC.replace("ba", "BA"),
        ABC.replace("sha256", "sha512"),
        "sha256:" + "g" * 64,
        "sha256:" + "\N{ARABIC-INDIC DIGIT ONE}" * 64,
        "sha256:../../" + "a" * 58,
    ],
)
def test_other_text_is_no_digest(text: str) -> None:
    """A digest becomes an object's name and a file's: a second spelling would be a second object, or a path."""
    with pytest.raises(InputError, match="is not a digest"):
        Digest.parse(text)


def test_digests_are_values() -> None:
    """They are dictionary keys and are sorted in lockfiles."""
    digests = [Digest.of(bytes([number])) for number in range(9)]
    assert sorted(digests, key=str) == sorted(digests)
    assert len({*digests, *(Digest.of(bytes([number])) for number in range(9))}) == 9
    frozen: Any = digests[0]
    with pytest.raises(AttributeError):
        frozen.hex = "0"
