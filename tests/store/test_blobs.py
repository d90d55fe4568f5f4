from __future__ import annotations

import random
from dataclasses import replace

import pytest
import zstandard

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing
from kernelforge.store import check_blob, get_blob, put_blob
from kernelforge.store.layout import blob_name
from kernelforge.store.memory import MemoryStore
from tests.store.conformance import CONTENT


def test_content_that_does_not_compress_is_stored_as_it_is() -> None:
    store, noise = MemoryStore(), random.Random(1).randbytes(5000)
    for content in (noise, b"", b"x"):
        blob = put_blob(store, content)
        assert blob == Descriptor.raw(content)
        assert get_blob(store, blob) == content


def test_compression_can_be_declined() -> None:
    store = MemoryStore()
    assert put_blob(store, CONTENT, compress=False) == Descriptor.raw(CONTENT)
    assert get_blob(store, Descriptor.raw(CONTENT)) == CONTENT


def test_name_is_the_digest_of_the_stored_bytes() -> None:
    store = MemoryStore()
    blob = put_blob(store, CONTENT)
    (name,) = store.names()
    stored = store.get(name, limit_bytes=10_000)
    assert name == f"v1/blobs/sha256/{blob.stored_digest.hex[:2]}/{blob.stored_digest.hex}"
    assert (blob.stored_digest, blob.stored_size_bytes) == (Digest.of(stored), len(stored))
    assert (blob.content_digest, blob.content_size_bytes) == (Digest.of(CONTENT), len(CONTENT))


def test_frames_of_another_version_of_zstd_are_read() -> None:
    """Which frame a content has may change with the library; the descriptor says which one is meant."""
    store = MemoryStore()
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(CONTENT)
    other = Descriptor(Digest.of(frame), len(frame), "zstd", Digest.of(CONTENT), len(CONTENT))
    store.create(blob_name(other.stored_digest), frame)
    assert get_blob(store, other) == CONTENT
    ours = put_blob(store, CONTENT)
    assert ours.stored_digest != other.stored_digest
    assert get_blob(store, other) == get_blob(store, ours)


def test_descriptor_that_lies_about_the_content_gets_nothing() -> None:
    """A forged record may name real stored bytes and a wrong content."""
    store = MemoryStore()
    blob = put_blob(store, CONTENT)
    for lie in (
        replace(blob, content_digest=Digest.of(b"other")),
        replace(blob, content_size_bytes=blob.content_size_bytes + 1),
        replace(blob, stored_size_bytes=blob.stored_size_bytes + 1),
        replace(blob, stored_size_bytes=blob.stored_size_bytes - 1),
    ):
        with pytest.raises(ObjectCorrupt):
            get_blob(store, lie)


def test_check_asks_for_the_size_only() -> None:
    store = MemoryStore()
    blob = put_blob(store, CONTENT)
    check_blob(store, blob)
    assert (store.traffic.heads, store.traffic.gets) == (1, 0)
    with pytest.raises(ObjectCorrupt):
        check_blob(store, replace(blob, stored_size_bytes=blob.stored_size_bytes - 1))
    store.delete(blob_name(blob.stored_digest))
    with pytest.raises(ObjectMissing):
        check_blob(store, blob)


class FlakyStore(MemoryStore):
    """Damages the first answer on its way, as a bad proxy does."""

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        data = super().get(name, limit_bytes=limit_bytes)
        return data if self.traffic.gets > 1 else data[:-1] + b"?"


def test_bytes_damaged_on_their_way_are_asked_for_again() -> None:
    """One bad transfer must not condemn a good object."""
    store = FlakyStore()
    blob = put_blob(store, CONTENT)
    assert get_blob(store, blob) == CONTENT
    assert store.traffic.gets == 2
