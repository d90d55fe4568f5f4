from __future__ import annotations

import pytest

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectMissing, StoreDenied, StoreError, StoreFull, StoreUnavailable
from kernelforge.store import PruneStore, get_blob, put_blob
from kernelforge.store.layout import action_name, blob_name, lock_name, ref_name, signature_name
from kernelforge.store.memory import MemoryStore
from kernelforge.store.read_through import ReadThroughStore
from tests.store.conformance import CONTENT, StoreConformance, replace_bytes
from tests.store.wrapped import Behind

DOWN = StoreUnavailable("down", hint="", where="mirror")


class TestReadThroughStore(StoreConformance):
    @pytest.fixture
    def store(self) -> PruneStore:
        origin = MemoryStore()
        return Behind(ReadThroughStore([MemoryStore(), MemoryStore()], origin), origin)

    def test_damaged_blob_is_never_read_and_is_repaired_by_the_next_write(self, store: PruneStore) -> None:
        """Damage in the origin is not even seen while a mirror has the right bytes."""
        blob = put_blob(store, CONTENT)
        replace_bytes(store, blob, "flipped")  # reads the blob first, which fills the mirrors
        assert get_blob(store, blob) == CONTENT


class Mirror(MemoryStore):
    """Raises ``on_read`` and ``on_write`` where they are set."""

    def __init__(self, *, on_read: StoreError | None = None, on_write: StoreError | None = None) -> None:
        super().__init__()
        self.on_read = on_read
        self.on_write = on_write
        self.asked = 0

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        self.asked += 1
        if self.on_read:
            raise self.on_read
        return super().get(name, limit_bytes=limit_bytes)

    def create(self, name: str, data: bytes) -> bool:
        self.asked += 1
        if self.on_write:
            raise self.on_write
        return super().create(name, data)


@pytest.fixture
def origin() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def blob(origin: MemoryStore) -> Descriptor:
    return put_blob(origin, CONTENT)


def test_the_nearest_one_that_has_it_answers_and_those_before_it_get_it(origin: MemoryStore, blob: Descriptor) -> None:
    near, middle = Mirror(), Mirror()
    put_blob(middle, CONTENT)
    before = origin.traffic
    assert get_blob(ReadThroughStore([near, middle], origin), blob) == CONTENT
    assert origin.traffic == before
    assert get_blob(near, blob) == CONTENT


def test_all_get_what_only_the_origin_has(origin: MemoryStore, blob: Descriptor) -> None:
    near, middle = Mirror(), Mirror()
    store = ReadThroughStore([near, middle], origin)
    assert get_blob(store, blob) == CONTENT
    assert get_blob(near, blob) == get_blob(middle, blob) == CONTENT
    before = origin.traffic
    assert get_blob(store, blob) == CONTENT
    assert origin.traffic == before


def test_what_nobody_has_is_missing(origin: MemoryStore) -> None:
    with pytest.raises(ObjectMissing):
        ReadThroughStore([Mirror()], origin).get(blob_name(Digest.of(b"x")), limit_bytes=1)


@pytest.mark.parametrize(
    "name",
    [
        "kf.json",
        ref_name("qwen3-8b", "prod"),
        action_name("release", Digest.of(b"key")),
        signature_name(Digest.of(b"lock"), "0" * 64),
    ],
)
def test_what_its_name_does_not_prove_comes_from_the_origin_alone(origin: MemoryStore, name: str) -> None:
    """A mirror that answered for a channel would hold back every release, or serve a withdrawn one."""
    near = Mirror()
    near.create(name, b"old")
    origin.create(name, b"new")
    near.asked = 0
    assert ReadThroughStore([near], origin).get(name, limit_bytes=3) == b"new"
    assert near.asked == 0


def test_lockfiles_are_proved_by_their_names(origin: MemoryStore) -> None:
    near = Mirror()
    name = lock_name(Digest.of(b"{}"))
    near.create(name, b"{}")
    assert ReadThroughStore([near], origin).get(name, limit_bytes=2) == b"{}"


def test_whether_it_is_in_the_store_is_asked_of_the_store(origin: MemoryStore, blob: Descriptor) -> None:
    """Who publishes a lockfile because its blobs are in a mirror publishes one that other pods cannot load."""
    near = Mirror()
    name = blob_name(blob.stored_digest)
    near.create(name, origin.get(name, limit_bytes=1 << 20))
    origin.delete(name)
    with pytest.raises(ObjectMissing):
        ReadThroughStore([near], origin).size(name)


@pytest.mark.parametrize("damage", ["flipped", "empty", "half", "longer"])
def test_damage_in_a_mirror_is_told_passed_over_and_repaired(
    origin: MemoryStore, blob: Descriptor, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    near, troubles = Mirror(), list[StoreError]()
    put_blob(near, CONTENT)
    replace_bytes(near, blob, damage)
    store = ReadThroughStore([near], origin, on_trouble=troubles.append)
    assert get_blob(store, blob) == CONTENT
    assert [type(error).__name__ for error in troubles] == ["ObjectCorrupt"]
    assert "passed over" in caplog.text
    assert get_blob(near, blob) == CONTENT


def test_damage_in_the_origin_is_not_spread(origin: MemoryStore, blob: Descriptor) -> None:
    near = Mirror()
    replace_bytes(origin, blob, "flipped")
    ReadThroughStore([near], origin).get(blob_name(blob.stored_digest), limit_bytes=1 << 20)
    assert list(near.names()) == []


@pytest.mark.parametrize("error", [DOWN, StoreDenied("403", hint="", where="mirror")])
def test_a_mirror_without_an_answer_is_told_and_not_asked_twice(
    origin: MemoryStore, blob: Descriptor, error: StoreError
) -> None:
    """Each time would cost its deadline, out of the same budget."""
    near, troubles = Mirror(on_read=error), list[StoreError]()
    store = ReadThroughStore([near], origin, on_trouble=troubles.append)
    assert get_blob(store, blob) == get_blob(store, blob) == CONTENT
    assert (near.asked, troubles) == (1, [error])


@pytest.mark.parametrize("error", [DOWN, StoreDenied("403", hint=""), StoreFull("read-only", hint="")])
def test_a_mirror_that_keeps_nothing_is_asked_to_once_and_still_read(
    origin: MemoryStore, blob: Descriptor, error: StoreError
) -> None:
    near, troubles = Mirror(on_write=error), list[StoreError]()
    store = ReadThroughStore([near], origin, on_trouble=troubles.append)
    assert get_blob(store, blob) == get_blob(store, blob) == CONTENT
    assert (near.asked, troubles) == (3, [error])


def test_an_error_of_the_origin_is_the_callers(blob: Descriptor) -> None:
    with pytest.raises(StoreUnavailable, match="down"):
        get_blob(ReadThroughStore([Mirror()], Mirror(on_read=DOWN)), blob)
