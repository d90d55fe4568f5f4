from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelforge.descriptor import MAX_SIZE_BYTES, Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import InputError

digests = st.binary(max_size=8).map(Digest.of)


@st.composite
def descriptors(draw: st.DrawFn) -> Descriptor:
    """Any valid descriptor."""
    content_digest, size_bytes = draw(digests), draw(st.integers(0, MAX_SIZE_BYTES))
    if size_bytes == 0 or draw(st.booleans()):
        return Descriptor(content_digest, size_bytes, "raw", content_digest, size_bytes)
    return Descriptor(draw(digests), draw(st.integers(0, size_bytes - 1)), "zstd", content_digest, size_bytes)


@settings(deadline=None)
@given(descriptors())
def test_survives_json(descriptor: Descriptor) -> None:
    assert Descriptor.from_json(json.loads(json.dumps(descriptor.to_json()))) == descriptor


VALID: dict[str, Any] = Descriptor(Digest.of(b"frame"), 5, "zstd", Digest.of(b"content"), 7).to_json()


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "sha256:" + "0" * 64,
        {},
        {**VALID, "note": "unknown member"},
        {name: VALID[name] for name in VALID if name != "content_size_bytes"},
        {**VALID, "stored_size_bytes": "5"},
        {**VALID, "stored_size_bytes": 5.0},
        {**VALID, "stored_size_bytes": True},
        {**VALID, "stored_size_bytes": -1},
        {**VALID, "content_size_bytes": MAX_SIZE_BYTES + 1},
        {**VALID, "stored_digest": "0" * 64},
        {**VALID, "stored_digest": "sha256:" + "A" * 64},
        {**VALID, "stored_digest": "sha256:../../../etc/passwd"},
        {**VALID, "content_digest": None},
        {**VALID, "encoding": "gzip"},
        {**VALID, "encoding": ["zstd"]},
        {**VALID, "encoding": "raw"},
        {**VALID, "stored_size_bytes": 7},
    ],
    ids=str,
)
def test_anything_else_is_refused_with_its_place(value: object) -> None:
    """A descriptor bounds what a reader allocates and names what it opens, so none may be half right."""
    with pytest.raises(InputError) as caught:
        Descriptor.from_json(value, where="record.json")
    assert caught.value.where == "record.json"


def test_largest_size_is_allowed() -> None:
    digest = Digest.of(b"")
    assert Descriptor(digest, MAX_SIZE_BYTES, "raw", digest, MAX_SIZE_BYTES).stored_size_bytes == MAX_SIZE_BYTES
