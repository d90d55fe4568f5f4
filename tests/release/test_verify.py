"""May this lockfile be served from here? Everything that is wrong is found at once, and nothing is guessed."""

from __future__ import annotations

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import StoreDenied, StoreError, StoreUnavailable
from kernelforge.release.verify import verify_closed, verify_pin, verify_stored
from kernelforge.store.layout import blob_name
from kernelforge.store.memory import MemoryStore
from tests.failing_store import FailingStore
from tests.small_release import LOCK, OTHER, fill

WANTED = {
    (device, entry.kernel, entry.symbol): str(entry.key_digest) for entry in LOCK.entries for device in entry.devices
}


@pytest.fixture
def store() -> MemoryStore:
    """A store that has every blob of the lockfile."""
    filled = MemoryStore()
    fill(filled)
    return filled


def overwrite(store: MemoryStore, digest: Digest, data: bytes) -> None:
    store.delete(blob_name(digest))
    store.create(blob_name(digest), data)


@pytest.mark.parametrize("pin", [None, LOCK.digest])
def test_the_pinned_lockfile_is_fine(pin: Digest | None) -> None:
    assert verify_pin(LOCK.to_bytes(), pin) == []


def test_another_lockfile_than_the_pinned_one() -> None:
    """Case G2: blobs intact, index altered."""
    [finding] = verify_pin(LOCK.to_bytes() + b"\n", LOCK.digest)
    assert finding.kind == "pin"
    assert str(LOCK.digest) in finding.text


def test_a_closed_world() -> None:
    assert verify_closed(LOCK, WANTED) == []
    assert verify_closed(LOCK, {}) == []


def test_every_key_that_is_missing_or_stale_is_found() -> None:
    """Cases F5 and H2: the set is believed complete, and the pod finds out at the first request."""
    wanted = {
        **WANTED,
        ("h200", "m:K", "kf_K_2"): str(OTHER),
        ("h200", "m:K", "kf_K_9"): str(OTHER),
        ("l40s", "m:K", "kf_K_1"): str(OTHER),
    }
    findings = verify_closed(LOCK, wanted)
    assert [(finding.kind, finding.subject) for finding in findings] == [
        ("stale-key", "kf_K_2"),
        ("missing-key", "kf_K_9"),
        ("missing-key", "kf_K_1"),
    ]
    assert (
        f"m:K for h200: locked {LOCK.entries[2].key_digest}, the manifest and sources give {OTHER}" in findings[0].text
    )
    assert findings[2].text == "m:K for l40s: not in the lockfile, build again"


@pytest.mark.parametrize("deep", [False, True])
def test_a_store_that_has_everything(store: MemoryStore, deep: bool) -> None:
    assert verify_stored(LOCK, store, deep=deep) == []


def test_the_quick_check_asks_for_packs_only(store: MemoryStore) -> None:
    """A pod needs its pack; asking for every object would cost a request per key. A shared pack is asked for once."""
    before = store.traffic
    verify_stored(LOCK, store, deep=False)
    assert store.traffic.requests - before.requests == len({pack.blob for pack in LOCK.packs.values()})
    assert store.traffic.bytes_read == before.bytes_read


@pytest.mark.parametrize("deep", [False, True])
def test_every_blob_that_is_missing_is_found(store: MemoryStore, deep: bool) -> None:
    """Case E3: one blob deleted in the store; all of them are named, not only the first."""
    for blob in (LOCK.packs["b200"].blob, LOCK.packs["h200"].blob, LOCK.entries[2].object):
        store.delete(blob_name(blob.stored_digest))
    findings = verify_stored(LOCK, store, deep=deep)
    assert {finding.kind for finding in findings} == {"missing-blob"}
    packs = ["pack of b200", "pack of h100", "pack of h200"]
    assert [finding.subject for finding in findings] == ([*packs, "object kf_K_2"] if deep else packs)


def test_other_bytes_of_the_same_size_are_found_by_reading_them(store: MemoryStore) -> None:
    """Case E2: a flipped byte. The quick check sees sizes only, which is why `--deep` exists."""
    pack, key_object = LOCK.packs["b200"].blob, LOCK.entries[0].object
    for blob in (pack, key_object):
        overwrite(store, blob.stored_digest, bytes(blob.stored_size_bytes))
    assert verify_stored(LOCK, store, deep=False) == []
    findings = verify_stored(LOCK, store, deep=True)
    assert [(finding.kind, finding.subject) for finding in findings] == [
        ("corrupt-blob", "pack of b200"),
        ("corrupt-blob", f"object {LOCK.entries[0].symbol}"),
    ]


@pytest.mark.parametrize("deep", [False, True])
def test_another_size_is_found_without_reading(store: MemoryStore, deep: bool) -> None:
    """Case E2: truncated, or empty."""
    overwrite(store, LOCK.packs["b200"].blob.stored_digest, b"")
    [finding] = verify_stored(LOCK, store, deep=deep)
    assert (finding.kind, finding.subject) == ("corrupt-blob", "pack of b200")


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("kind", [StoreUnavailable, StoreDenied])
def test_a_store_that_does_not_answer_is_not_a_finding(kind: type[StoreError], deep: bool) -> None:
    """Case F2: 'everything is missing' would be a wrong answer about the lockfile."""
    with pytest.raises(kind):
        verify_stored(LOCK, FailingStore(kind("no", hint="wait")), deep=deep)
