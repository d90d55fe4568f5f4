from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import (
    EncodingError,
    FormatUnknown,
    ObjectCorrupt,
    ObjectMissing,
    UsageError,
)
from kernelforge.store import ActionCache, BuildRecord, PutOutcome, get_blob, put_blob
from kernelforge.store.actions import RECORD_LIMIT_BYTES
from kernelforge.store.layout import action_name, blob_name
from kernelforge.store.memory import MemoryStore
from tests.test_descriptor import descriptors

KEY = Digest.of(b"key")

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
records = st.builds(
    BuildRecord,
    key_digest=st.binary(max_size=4).map(Digest.of),
    outputs=st.dictionaries(st.text(max_size=8), descriptors(), max_size=3),
    facts=st.dictionaries(st.text(), json_values, max_size=3),
    seconds=st.floats(min_value=0, allow_infinity=False),
    preimage=st.dictionaries(st.text(), json_values, max_size=3),
)


def record_of(store: MemoryStore, content: bytes, **changes: Any) -> BuildRecord:
    """A record whose one output is ``content``, stored."""
    record = BuildRecord(KEY, {"object": put_blob(store, content)}, {"registers": 40}, 0.25, {"kernel": "m:K"})
    return replace(record, **changes)


@settings(deadline=None)
@given(records)
def test_records_survive_their_bytes(record: BuildRecord) -> None:
    data = record.to_bytes()
    read = BuildRecord.parse(data, key_digest=record.key_digest, where="here")
    assert read == record
    assert read.to_bytes() == data


def test_record_does_not_depend_on_the_order_of_members() -> None:
    store = MemoryStore()
    one = record_of(store, b"x", facts={"a": 1, "b": 2})
    other = record_of(store, b"x", facts={"b": 2, "a": 1})
    assert one.to_bytes() == other.to_bytes()


class TestPut:
    def test_absent_key_is_a_miss(self) -> None:
        with pytest.raises(ObjectMissing):
            ActionCache(MemoryStore(), "dev").get(KEY)

    def test_first_record_answers(self) -> None:
        store = MemoryStore()
        cache, record = ActionCache(store, "dev"), record_of(store, b"x")
        assert cache.put(record) is PutOutcome.CREATED
        assert cache.put(record) is PutOutcome.SAME
        assert cache.get(KEY) == record

    def test_other_seconds_and_facts_are_the_same_result(self) -> None:
        store = MemoryStore()
        cache, record = ActionCache(store, "dev"), record_of(store, b"x")
        cache.put(record)
        assert cache.put(replace(record, seconds=9.0, facts={"host": "b"})) is PutOutcome.SAME
        assert cache.get(KEY) == record

    def test_other_frame_of_equal_content_is_the_same_result(self) -> None:
        """Another version of zstd must not look like a compiler that is not deterministic."""
        store, content = MemoryStore(), b"x" * 1000
        cache, record = ActionCache(store, "dev"), record_of(store, content)
        cache.put(record)
        other = record_of(store, content, outputs={"object": put_blob(store, content, compress=False)})
        assert cache.put(other) is PutOutcome.SAME
        assert cache.get(KEY) == record

    @pytest.mark.parametrize("role", ["object", "cubin"])
    def test_other_outputs_are_a_conflict_and_the_first_stay(self, role: str) -> None:
        store = MemoryStore()
        cache, first = ActionCache(store, "dev"), record_of(store, b"first")
        cache.put(first)
        second = record_of(store, b"first", outputs={role: put_blob(store, b"second")})
        assert cache.put(second) is PutOutcome.CONFLICT
        assert cache.put(replace(second, seconds=7.0)) is PutOutcome.CONFLICT
        assert cache.get(KEY) == first
        (evidence,) = store.names("v1/dev/conflicts/")
        kept = store.get(evidence, limit_bytes=RECORD_LIMIT_BYTES)
        assert BuildRecord.parse(kept, key_digest=KEY, where=evidence) == second

    def test_domains_are_separate(self) -> None:
        """What a pull request's build may write must not be what a release build reads."""
        store = MemoryStore()
        ActionCache(store, "dev").put(record_of(store, b"x"))
        with pytest.raises(ObjectMissing):
            ActionCache(store, "release").get(KEY)

    @pytest.mark.parametrize("domain", ["", "blobs", "locks", "refs", "gc", "../x", "a/b", "Dev", "dev\n"])
    def test_domains_that_are_something_else_are_refused(self, domain: str) -> None:
        with pytest.raises(UsageError):
            ActionCache(MemoryStore(), domain)


class TestRepair:
    """An entry that nobody can use must not stay for ever: every build would compile its key again."""

    def test_damaged_record_is_corrupt_then_replaced(self, caplog: pytest.LogCaptureFixture) -> None:
        store = MemoryStore()
        cache, record = ActionCache(store, "dev"), record_of(store, b"x")
        store.create(action_name("dev", KEY), record.to_bytes()[:-20])
        with pytest.raises(ObjectCorrupt):
            cache.get(KEY)
        with caplog.at_level(logging.WARNING):
            assert cache.put(record) is PutOutcome.CREATED
        assert "replacing the build record" in caplog.text
        assert cache.get(KEY) == record

    def test_record_of_a_lost_blob_is_replaced(self) -> None:
        """The blob was deleted and the next build made other bytes: the old record can never be a hit again."""
        store = MemoryStore()
        cache, old = ActionCache(store, "dev"), record_of(store, b"old")
        cache.put(old)
        store.delete(blob_name(old.outputs["object"].stored_digest))
        new = record_of(store, b"new")
        assert cache.put(new) is PutOutcome.CREATED
        assert cache.get(KEY) == new
        assert list(store.names("v1/dev/conflicts/")) == []

    def test_lost_blob_that_is_built_again_makes_its_record_whole(self) -> None:
        store, content = MemoryStore(), b"x" * 1000
        cache, record = ActionCache(store, "dev"), record_of(store, content)
        cache.put(record)
        store.delete(blob_name(record.outputs["object"].stored_digest))
        assert cache.put(record_of(store, content, seconds=3.0)) is PutOutcome.SAME
        assert get_blob(store, cache.get(KEY).outputs["object"]) == content

    def test_lost_blob_that_comes_back_as_another_frame(self) -> None:
        store, content = MemoryStore(), b"x" * 1000
        frame = zstandard.ZstdCompressor(write_checksum=True).compress(content)
        lost = Descriptor(Digest.of(frame), len(frame), "zstd", Digest.of(content), len(content))
        cache = ActionCache(store, "dev")
        cache.put(record_of(store, content, outputs={"object": lost}))
        assert cache.put(record_of(store, content)) is PutOutcome.CREATED
        assert get_blob(store, cache.get(KEY).outputs["object"]) == content

    def test_record_of_a_later_version_is_left_alone(self) -> None:
        """An old program must not replace what it merely does not understand."""
        store = MemoryStore()
        cache, record = ActionCache(store, "dev"), record_of(store, b"x")
        later = b'{"schema":"kernelforge.action/2"}'
        store.create(action_name("dev", KEY), later)
        for call in (lambda: cache.get(KEY), lambda: cache.put(record)):
            with pytest.raises(FormatUnknown):
                call()
        assert store.get(action_name("dev", KEY), limit_bytes=100) == later


def _edited(**changes: Any) -> bytes:
    document = json.loads(record_of(MemoryStore(), b"x").to_bytes())
    return json.dumps({**document, **changes}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        _edited(schema="kernelforge.lock/1"),
        _edited(schema=None),
        _edited(key_digest=str(Digest.of(b"another key"))),
        _edited(key_digest=None),
        _edited(extra=1),
        _edited(outputs=[]),
        _edited(outputs={"object": {}}),
        _edited(outputs={"object": {**Descriptor.raw(b"x").to_json(), "stored_digest": "sha256:../../x"}}),
        _edited(facts=None),
        _edited(preimage="text"),
        _edited(seconds=-1.0),
        _edited(seconds=True),
        _edited(seconds="1"),
        _edited(facts={"a": float("nan")}),
        _edited().replace(b'"seconds"', b'"facts": {}, "seconds"'),
        _edited()[:-1],
        _edited() + b"{}",
    ],
)
def test_what_is_no_record_of_this_key_is_corrupt(data: bytes) -> None:
    """A record moved or copied to another key's name (A1: by hand, between machines) must never be that key's hit."""
    store = MemoryStore()
    store.create(action_name("dev", KEY), data)
    with pytest.raises(ObjectCorrupt) as caught:
        ActionCache(store, "dev").get(KEY)
    assert KEY.hex in caught.value.where


def test_oversized_record_is_neither_written_nor_read() -> None:
    store = MemoryStore()
    large = record_of(store, b"x", facts={"log": "x" * RECORD_LIMIT_BYTES})
    with pytest.raises(EncodingError):
        ActionCache(store, "dev").put(large)
    store.create(action_name("dev", KEY), b" " * (RECORD_LIMIT_BYTES + 1))
    with pytest.raises(ObjectCorrupt):
        ActionCache(store, "dev").get(KEY)


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": {"a": (1, 2)}},
        {"facts": {"a": {1: 2}}},
        {"facts": {"a": float("inf")}},
        {"facts": {"a": b"bytes"}},
        {"facts": {"a": "\ud800"}},
        {"preimage": {"a": {1, 2}}},
        {"preimage": {"a": object()}},
        {"seconds": -0.5},
        {"seconds": float("nan")},
    ],
)
def test_what_json_would_change_is_refused(changes: dict[str, Any]) -> None:
    store = MemoryStore()
    with pytest.raises(EncodingError):
        ActionCache(store, "dev").put(record_of(store, b"x", **changes))
    assert list(store.names("v1/dev/")) == []


def test_who_loses_the_race_to_repair_a_record_keeps_the_winners() -> None:
    """Another builder may repair the same record first: its result then counts, and ours is evidence."""

    class Rival(MemoryStore):
        def delete(self, name: str, *, version: str | None = None) -> None:
            super().delete(name)
            super().create(name, record_of(self, b"rival").to_bytes())
            super().delete(name, version=version)

    store = Rival()
    store.create(action_name("dev", KEY), b"damaged")
    assert ActionCache(store, "dev").put(record_of(store, b"x")) is PutOutcome.CONFLICT
    assert get_blob(store, ActionCache(store, "dev").get(KEY).outputs["object"]) == b"rival"
