"""``kernelforge inspect`` on what is in a store: all of it, a channel, or whatever has a digest. Trusts nothing.

A digest names a lockfile, a blob or a key; each is asked for by name, so that nothing is listed.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import click

from kernelforge.cli.console import print_json
from kernelforge.digest import Digest
from kernelforge.errors import ObjectMissing
from kernelforge.lockfile import Lockfile
from kernelforge.release.census import Census, take_census
from kernelforge.release.refs import SIZE_LIMIT_BYTES, claimed_ref
from kernelforge.release.stored_lock import stored_lock
from kernelforge.release.utc import utc_text
from kernelforge.report.units import bytes_text
from kernelforge.store.actions import ActionCache
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import blob_name, ref_name

SCHEMA = "kernelforge.inspection/1"


def inspect_store(store: PruneStore, as_json: bool) -> int:
    """What is there, what it takes, what releases share, how each release made it grow."""
    census = take_census(store)
    if as_json:
        print_json(_census_json(store, census))
        return 0
    click.echo(f"{store.location}: {sum(census.objects.values())} objects")
    for kind in sorted(census.objects, key=lambda kind: -census.size_bytes[kind]):
        click.echo(f"  {kind.value:18} {census.objects[kind]:>9,}  {bytes_text(census.size_bytes[kind])}")
    loose = f"{census.unreferenced_blobs:,} blobs, {bytes_text(census.unreferenced_bytes)}"
    click.echo(f"sharing saves {bytes_text(census.shared_bytes)}; named by no lockfile: {loose}")
    for each in census.releases:
        when = utc_text(datetime.fromtimestamp(int(each.written_s), timezone.utc))
        grown = f"{bytes_text(each.new_bytes)} new of {bytes_text(each.blob_bytes)}"
        click.echo(f"  {when}  {each.name}  {grown}  {each.lock}")
    return 0


def inspect_digest(store: PruneStore, digest: Digest, domains: tuple[str, ...], as_json: bool) -> int:
    """The lockfile, blob or key with this digest; ``ObjectMissing`` if it is none of them in ``store``."""
    document = _lock_json(store, digest) or _blob_json(store, digest) or _key_json(store, digest, domains)
    if document is None:
        hint = f"it is no lockfile, blob, or key of the domains {', '.join(domains)} there"
        raise ObjectMissing("nothing has this digest", hint=hint, where=f"{store.location}: {digest}")
    _show(document, as_json)
    return 0


def inspect_channel(store: PruneStore, channel: str, as_json: bool) -> int:
    """What a channel's ref claims; whether to believe it is asked by ``verify --channel``."""
    deployment, _, name = channel.partition("/")
    object_name = ref_name(deployment, name)
    envelope = store.get(object_name, limit_bytes=SIZE_LIMIT_BYTES)
    claimed = claimed_ref(envelope, where=f"{store.location}: {object_name}").to_json()
    del claimed["schema"]
    _show({"kind": "channel", "is_checked": False, **claimed}, as_json)
    return 0


def _lock_json(store: PruneStore, digest: Digest) -> dict[str, Any] | None:
    try:
        lock = Lockfile.parse(stored_lock(store, digest), where=f"{store.location}: {digest}")
    except ObjectMissing:
        return None
    packs = {device: pack.blob.stored_size_bytes for device, pack in lock.packs.items()}
    return {"kind": "lockfile", "name": lock.name, "keys": len(lock.entries), "pack_bytes": packs}


def _blob_json(store: PruneStore, digest: Digest) -> dict[str, Any] | None:
    try:
        return {"kind": "blob", "size_bytes": store.size(blob_name(digest))}
    except ObjectMissing:
        return None


def _key_json(store: PruneStore, digest: Digest, domains: tuple[str, ...]) -> dict[str, Any] | None:
    for domain in domains:
        try:
            record = ActionCache(store, domain).get(digest)
        except ObjectMissing:
            continue
        outputs = {role: blob.stored_size_bytes for role, blob in record.outputs.items()}
        return {"kind": "key", "domain": domain, "preimage": dict(record.preimage), "output_bytes": outputs}
    return None


def _show(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"schema": SCHEMA, **document})
        return
    for name, value in document.items():
        click.echo(f"{name}: {value}")


def _census_json(store: PruneStore, census: Census) -> dict[str, Any]:
    kinds = {
        kind.value: {"objects": count, "size_bytes": census.size_bytes[kind]} for kind, count in census.objects.items()
    }
    releases = [
        {"lock": str(each.lock), "name": each.name, "blob_bytes": each.blob_bytes, "new_bytes": each.new_bytes}
        for each in census.releases
    ]
    loose = {"blobs": census.unreferenced_blobs, "size_bytes": census.unreferenced_bytes}
    document = {"schema": SCHEMA, "kind": "store", "location": store.location, "kinds": kinds, "releases": releases}
    return {**document, "shared_bytes": census.shared_bytes, "unreferenced": loose}
