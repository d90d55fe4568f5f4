"""Bundles are written the same every time, hold what the lockfile names, and go back whole or not at all."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing, StoreFull, UsageError
from kernelforge.release.bundle import import_bundle, stored_signature_names, write_bundle
from kernelforge.release.publish import publish_lockfile
from kernelforge.store.bundle import BundleStore
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import blob_name, lock_name, signature_name
from kernelforge.store.memory import MemoryStore
from tests.release.signed import NEXT, OURS, signature
from tests.small_release import LOCK, fill

SIGNATURES = {OURS.public.key_id: signature(), NEXT.public.key_id: signature(key=NEXT)}


@pytest.fixture
def store() -> PruneStore:
    made = MemoryStore()
    fill(made)
    publish_lockfile(LOCK, made, facts=None)
    return made


def written(path: Path, store: PruneStore, **options: object) -> BundleStore:
    size_bytes = write_bundle(path, LOCK, store, signatures=SIGNATURES, **options)  # type: ignore[arg-type]
    assert size_bytes == path.stat().st_size
    return BundleStore(path)


@pytest.mark.parametrize("with_objects", [False, True])
def test_equal_releases_have_equal_bytes(tmp_path: Path, store: PruneStore, with_objects: bool) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    written(first, store, with_objects=with_objects)
    write_bundle(again, LOCK, store, signatures=dict(reversed(SIGNATURES.items())), with_objects=with_objects)
    assert first.read_bytes() == again.read_bytes()


def test_it_has_what_was_asked_for_and_nothing_else(tmp_path: Path, store: PruneStore) -> None:
    small, full = written(tmp_path / "small", store, devices=("b200",)), written(tmp_path / "full", store)
    packs = {blob_name(pack.blob.stored_digest) for pack in LOCK.packs.values()}
    assert {each.name for each in full.listed("v1/blobs/")} == packs
    assert [each.name for each in small.listed("v1/blobs/")] == [blob_name(LOCK.packs["b200"].blob.stored_digest)]
    assert (small.index.devices, full.index.devices) == (("b200",), ("b200", "h100", "h200"))
    assert sorted(stored_signature_names(full, LOCK.digest)) == sorted(
        signature_name(LOCK.digest, key) for key in SIGNATURES
    )


def test_it_goes_back_into_a_store_whole(tmp_path: Path, store: PruneStore) -> None:
    bundle, goal = written(tmp_path / "f", store, with_objects=True), MemoryStore()
    for _ in range(2):
        assert import_bundle(bundle, LOCK, goal) == LOCK.digest
    blobs = {each.name for each in store.listed("v1/blobs/")}
    assert {each.name for each in goal.listed("v1/blobs/")} == blobs
    assert goal.get(lock_name(LOCK.digest), limit_bytes=1 << 20) == LOCK.to_bytes()
    for key_id, envelope in SIGNATURES.items():
        assert goal.get(signature_name(LOCK.digest, key_id), limit_bytes=1 << 20) == envelope


def test_without_objects_the_lockfile_stays_out(tmp_path: Path, store: PruneStore) -> None:
    """A lockfile in a store promises that all it names is there."""
    bundle, goal = written(tmp_path / "f", store), MemoryStore()
    with pytest.raises(ObjectMissing, match="neither in the bundle nor in the store"):
        import_bundle(bundle, LOCK, goal)
    assert [each.name for each in goal.listed("v1/locks/")] == []


def test_a_blob_that_was_altered_with_its_checksum_is_not_imported(tmp_path: Path, store: PruneStore) -> None:
    """CRC-32 in the file is no protection: whoever alters a member alters it too."""
    name = blob_name(LOCK.packs["b200"].blob.stored_digest)
    honest = store.get(name, limit_bytes=1 << 20)
    path = tmp_path / "f"
    write_bundle(path, LOCK, store, signatures={}, with_objects=True)
    data = path.read_bytes()
    evil = b"X" * len(honest)
    crcs = (zlib.crc32(honest).to_bytes(4, "little"), zlib.crc32(evil).to_bytes(4, "little"))
    path.write_bytes(data.replace(honest, evil).replace(*crcs))
    goal = MemoryStore()
    with pytest.raises(ObjectCorrupt):
        import_bundle(BundleStore(path), LOCK, goal)
    assert [each.name for each in goal.listed("v1/locks/")] == []


def test_a_store_that_rots_makes_no_bundle(tmp_path: Path, store: PruneStore) -> None:
    name = blob_name(LOCK.packs["b200"].blob.stored_digest)
    size_bytes = store.size(name)
    store.delete(name)
    store.create(name, b"X" * size_bytes)
    with pytest.raises(ObjectCorrupt):
        write_bundle(tmp_path / "f", LOCK, store, signatures={})
    assert list(tmp_path.iterdir()) == []


def test_another_signature_by_the_same_key_is_a_conflict(tmp_path: Path, store: PruneStore) -> None:
    bundle, goal = written(tmp_path / "f", store, with_objects=True), MemoryStore()
    import_bundle(bundle, LOCK, goal)
    name = signature_name(LOCK.digest, OURS.public.key_id)
    goal.delete(name)
    goal.create(name, b"another")
    with pytest.raises(ObjectConflict, match="another signature by this key"):
        import_bundle(bundle, LOCK, goal)


def test_what_cannot_be_is_refused(tmp_path: Path, store: PruneStore) -> None:
    with pytest.raises(UsageError, match="no pack for tpu"):
        write_bundle(tmp_path / "f", LOCK, store, signatures={}, devices=("tpu",))
    with pytest.raises(StoreFull):
        write_bundle(tmp_path / "nowhere" / "f", LOCK, store, signatures={})
