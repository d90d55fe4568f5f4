"""Releases in a store as builds and promotions leave them: objects, cubins, records, packs, lockfiles, refs, moves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.lockfile import LockedEntry, LockedPack, Lockfile
from kernelforge.release.gc.collect import Collection, collect
from kernelforge.release.gc.retention import Retention
from kernelforge.release.moves import move_bytes
from kernelforge.release.refs import PAYLOAD_TYPE, SIZE_LIMIT_BYTES, Ref
from kernelforge.store.actions import ActionCache, BuildRecord
from kernelforge.store.blobs import check_blob, get_blob
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import action_name, blob_name, lock_name, ref_log_name, ref_name, signature_name
from tests.aging_store import AgingStore
from tests.small_release import HOPPER, LOCK

KEY_ID = "ab" * 32
START = datetime(2027, 1, 31, 9, 30, tzinfo=timezone.utc)
#: Small stores change by large shares.
ANY_SHARE = Retention(allow_fraction=1.0)


@dataclass(frozen=True)
class Release:
    """A lockfile, what it names, and the build records; ``contents`` by stored digest."""

    lock: Lockfile
    contents: dict[Digest, bytes]
    records: tuple[BuildRecord, ...]

    @property
    def needed(self) -> set[str]:
        """Names of all that has to stay with the lockfile."""
        names = {lock_name(self.lock.digest), *map(blob_name, self.contents)}
        return names | {action_name("release", record.key_digest) for record in self.records}


def make_release(name: str, objects: Iterable[str], *, size_bytes: int = 0) -> Release:
    """A release whose objects have these names: releases share those of equal names. Blobs have at least this size."""
    symbols = sorted(objects)
    contents = {symbol: f"object {symbol}".encode().ljust(size_bytes, b".") for symbol in symbols}
    library = f"pack {symbols}".encode().ljust(size_bytes, b".")
    recipe = Digest.of(f"recipe {symbols}".encode())
    keys = {symbol: Digest.of(f"key {symbol}".encode()) for symbol in symbols}
    entries = tuple(
        LockedEntry("m:K", {"n": symbol}, HOPPER, keys[symbol], f"kf_{symbol}", Descriptor.raw(data), ("h200",))
        for symbol, data in contents.items()
    )
    pack = LockedPack(HOPPER, recipe, Descriptor.raw(library), "lld 1", (), ())
    lock = replace(LOCK, name=name, devices={"h200": LOCK.devices["h200"]}, entries=entries, packs={"h200": pack})
    cubins = {symbol: f"cubin {symbol}".encode() for symbol in symbols}
    outputs = {
        keys[symbol]: {"object": Descriptor.raw(contents[symbol]), "cubin": Descriptor.raw(cubins[symbol])}
        for symbol in symbols
    }
    records = [BuildRecord(key, blobs, {}, 0.5, {}) for key, blobs in outputs.items()]
    records.append(BuildRecord(recipe, {"pack": Descriptor.raw(library)}, {}, 0.0, {}))
    records.append(BuildRecord(lock.digest, {"h200": pack.blob}, {}, 0.0, {"lockfile": str(lock.digest)}))
    stored = {Digest.of(data): data for data in (*contents.values(), *cubins.values(), library)}
    return Release(lock, stored, tuple(records))


def build(store: PruneStore, release: Release, *, domain: str = "release") -> None:
    """Put blobs and records there."""
    for digest, data in release.contents.items():
        store.create(blob_name(digest), data)
    for record in release.records:
        ActionCache(store, domain).put(record)


def publish(store: PruneStore, release: Release) -> None:
    """Build, then lockfile and something that stands for a signature."""
    build(store, release)
    store.create(lock_name(release.lock.digest), release.lock.to_bytes())
    store.create(signature_name(release.lock.digest, KEY_ID), b"{}")


def point(store: PruneStore, release: Release, *, channel: str = "prod", serial: int = 1) -> None:
    """Move a channel there, with its log; the signature is nobody's."""
    name = ref_name(release.lock.name, channel)
    lifetime = timedelta(days=90)
    ref = Ref(
        release.lock.name, channel, release.lock.digest, serial, START, START + lifetime, None, None, None, "ann", ""
    )
    envelope = envelope_of(ref.to_bytes())
    if serial == 1:
        store.create(name, envelope)
    else:
        version = store.get_versioned(name, limit_bytes=SIZE_LIMIT_BYTES)[1]
        store.replace(name, envelope, version=version)
    store.create(ref_log_name(release.lock.name, channel, serial), move_bytes(ref, envelope))


def envelope_of(payload: bytes) -> bytes:
    """A DSSE envelope signed with nonsense: collectors have no keys."""
    import base64
    import json

    signatures = [{"keyid": KEY_ID, "sig": "AAAA"}]
    document = {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": signatures}
    return json.dumps(document).encode()


def run(store: AgingStore, retention: Retention = ANY_SHARE) -> Collection:
    """``kernelforge gc --run``."""
    return collect(store, retention, now_s=store.now_s)


def run_twice(store: AgingStore, retention: Retention = ANY_SHARE) -> Collection:
    """Find what nothing needs, wait, delete it."""
    run(store, retention)
    store.pass_time(seconds=retention.grace_s + 1)
    return run(store, retention)


def is_whole(store: PruneStore, release: Release) -> bool:
    """Whether all that the lockfile names is there, byte for byte."""
    for blob in release.lock.blobs:
        check_blob(store, blob)
        get_blob(store, blob)
    return store.get(lock_name(release.lock.digest), limit_bytes=1 << 20) == release.lock.to_bytes()
