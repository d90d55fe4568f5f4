"""A channel may point at a lockfile that is whole, signed, of its own deployment and built for release."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kernelforge.errors import (
    KernelForgeError,
    LockfileExpired,
    ObjectCorrupt,
    ObjectMissing,
    PromotionRefused,
    UntrustedLockfile,
    UsageError,
)
from kernelforge.lockfile import Lockfile
from kernelforge.release.promotable import check_promotable
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import blob_name, lock_name, signature_name
from kernelforge.store.memory import MemoryStore
from tests.release.channel_world import SIGNER, START, STRANGER, fill_store, release_lock, sign

LOCK = release_lock(0)
SIGNATURE = signature_name(LOCK.digest, SIGNER.public.key_id)


def check(store: PruneStore, lock: Lockfile = LOCK, *, deployment: str = LOCK.name, domains: str = "release") -> None:
    check_promotable(
        store,
        lock.digest,
        deployment=deployment,
        trusted=[SIGNER.public],
        now=START + timedelta(days=20),
        domains=frozenset(domains.split()),
    )


@pytest.fixture
def store() -> PruneStore:
    store = MemoryStore()
    fill_store(store, [LOCK])
    return store


def put(store: PruneStore, name: str, data: bytes) -> None:
    store.delete(name)
    store.create(name, data)


def signed_anew(store: PruneStore, **how: object) -> None:
    store.delete(SIGNATURE)
    sign(store, LOCK, **how)  # type: ignore[arg-type]


def with_signature_of_another(store: PruneStore) -> None:
    other = release_lock(1)
    sign(store, other)
    put(store, SIGNATURE, store.get(signature_name(other.digest, SIGNER.public.key_id), limit_bytes=1 << 20))


OBJECT = blob_name(LOCK.entries[0].object.stored_digest)
PACK = blob_name(LOCK.packs["b200"].blob.stored_digest)


def test_a_release_may_be_promoted(store: PruneStore) -> None:
    check(store)


@pytest.mark.parametrize(
    ("damage", "error", "problem"),
    [
        (lambda store: store.delete(lock_name(LOCK.digest)), ObjectMissing, "no such object"),
        (lambda store: put(store, lock_name(LOCK.digest), b"{}"), ObjectCorrupt, "not those that the name promises"),
        (lambda store: store.delete(SIGNATURE), UntrustedLockfile, "has no signature by"),
        (lambda store: signed_anew(store, key=STRANGER), UntrustedLockfile, "has no signature by"),
        (lambda store: put(store, SIGNATURE, b"{}"), UntrustedLockfile, "not a signed envelope"),
        (with_signature_of_another, UntrustedLockfile, "the signature is over"),
        (lambda store: signed_anew(store, days=20), LockfileExpired, "ended at"),
        (lambda store: signed_anew(store, domain="dev"), PromotionRefused, "domain 'dev'"),
        (lambda store: store.delete(PACK), ObjectMissing, "1 of its 5 packs and objects cannot be used"),
        (lambda store: store.delete(OBJECT), ObjectMissing, "1 of its 5 packs and objects cannot be used"),
        (lambda store: put(store, OBJECT, b"cut"), ObjectCorrupt, "1 of its 5 packs and objects cannot be used"),
    ],
)
def test_anything_less_may_not(
    store: PruneStore, damage: Callable[[PruneStore], None], error: type[KernelForgeError], problem: str
) -> None:
    damage(store)
    with pytest.raises(error, match=problem):
        check(store)


def test_a_lockfile_of_another_deployment_may_not(store: PruneStore) -> None:
    with pytest.raises(PromotionRefused, match="is a lockfile of qwen3-8b, not of llama-70b"):
        check(store, deployment="llama-70b")


def test_another_domain_may_if_somebody_says_so(store: PruneStore) -> None:
    signed_anew(store, domain="nightly")
    check(store, domains="release nightly")


def test_nothing_that_no_trusted_key_signed_is_parsed(store: PruneStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.delete(SIGNATURE)
    monkeypatch.setattr(Lockfile, "parse", lambda *_, **__: pytest.fail("parsed"))
    with pytest.raises(UntrustedLockfile):
        check(store)


def test_nobody_is_trusted_by_default(store: PruneStore) -> None:
    with pytest.raises(UsageError, match="no key is trusted"):
        check_promotable(store, LOCK.digest, deployment=LOCK.name, trusted=[], now=START)


def test_packs_that_devices_share_are_asked_for_once(store: PruneStore) -> None:
    before = store.traffic.heads
    check(store)
    assert store.traffic.heads - before == 5
