"""Puts a release into one file, a bundle, and takes it out again into a store.

Everything is checked on the way in and on the way out: a bundle has nothing but what its lockfile names, and for the
same lockfile and signatures it has the same bytes wherever and whenever it is made. Does not ask whether the lockfile
is trusted; whoever calls has done that.
"""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectConflict, ObjectMissing, StoreFull, UsageError
from kernelforge.lockfile import Lockfile
from kernelforge.release.envelope import SIZE_LIMIT_BYTES
from kernelforge.release.publish import publish_lockfile
from kernelforge.store.blobs import get_stored
from kernelforge.store.bundle import INDEX, BundleIndex, BundleStore, member_order
from kernelforge.store.faults import faults
from kernelforge.store.interface import PruneStore, ReadStore
from kernelforge.store.layout import blob_name, lock_name, signature_name
from kernelforge.store.named import Kind, named
from kernelforge.store.stored_zip import MAX_FILE_BYTES, MAX_MEMBERS, Member, end_of, header_of, list_of


def stored_signature_names(store: PruneStore, lock: Digest) -> list[str]:
    """Names of the signatures over a lockfile that a store has, by one listing of that lockfile's own folder."""
    prefix = lock_name(lock).removesuffix(".json") + ".sig/"
    return [each.name for each in store.listed(prefix) if named(each.name).kind is Kind.SIGNATURE]


def write_bundle(
    path: Path,
    lock: Lockfile,
    store: ReadStore,
    *,
    signatures: Mapping[str, bytes],
    devices: Sequence[str] = (),
    with_objects: bool = False,
) -> int:
    """Write the bundle of ``lock`` to ``path``, atomically, over what is there; its size in bytes.

    ``signatures``: envelopes by key id. ``devices``: the profiles whose packs go in, all if empty. ``with_objects``:
    the objects that packs were linked from too, which a store needs that the bundle is imported into. Every blob is
    checked as it is read; one is in memory at a time. Raises ``UsageError`` for a device that the lockfile does not
    have and for what no bundle can hold, ``StoreFull`` if the file cannot be written, and what reading blobs raises.
    """
    blobs = _blobs(lock, devices or tuple(lock.packs), with_objects)
    data = lock.to_bytes()
    digest = Digest.of(data)
    index = BundleIndex(digest, tuple(devices or lock.packs), with_objects)
    small = {INDEX: index.to_bytes(), lock_name(digest): data}
    small |= {signature_name(digest, key_id): envelope for key_id, envelope in signatures.items()}
    names = sorted([*small, *blobs], key=member_order)
    size_bytes = sum(map(len, small.values())) + sum(blob.stored_size_bytes for blob in blobs.values())
    if len(names) > MAX_MEMBERS or size_bytes + 512 * len(names) > MAX_FILE_BYTES:
        hint = "leave out --with-objects, or make one bundle per --device"
        raise UsageError(f"{len(names)} members of {size_bytes} bytes are too much for a bundle", hint=hint)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(unfinished, "xb") as file:
            _write(file, ((name, small[name] if name in small else get_stored(store, blobs[name])) for name in names))
            file.flush()
            os.fsync(file.fileno())
            written_bytes = file.tell()
        os.replace(unfinished, path)
    except OSError as error:
        hint = "give another -o, or make room"
        raise StoreFull(f"cannot write: {error.strerror or error}", hint=hint, where=str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return written_bytes


def import_bundle(bundle: BundleStore, lock: Lockfile, store: PruneStore) -> Digest:
    """Copy what the bundle has into ``store``: blobs first, then the lockfile, then its signatures.

    ``lock`` is the bundle's, and trusted by the caller. What is there already stays. Raises ``ObjectCorrupt`` for a
    bundle with anything that the lockfile does not name, ``ObjectMissing`` if bundle and store together lack a pack or
    object, ``ObjectConflict`` for a signature whose key has signed otherwise there, and ``StoreError``.
    """
    bundle.check_named_by(lock)
    named_blobs = _blobs(lock, tuple(lock.packs), with_objects=True)
    for each in bundle.listed("v1/blobs/"):
        store.create(each.name, get_stored(bundle, named_blobs[each.name]))
    missing = faults(store, named_blobs.values())
    if missing:
        first = next(iter(missing.values()))
        raise ObjectMissing(
            f"{len(missing)} packs and objects are neither in the bundle nor in the store, so the lockfile stays out",
            hint="make the bundle with --with-objects and without --device; or load from the bundle itself",
            where=first.where,
        ) from first
    digest = publish_lockfile(lock, store, facts=None)
    for name in stored_signature_names(bundle, digest):
        _copy_signature(bundle, store, name)
    return digest


def _blobs(lock: Lockfile, devices: Sequence[str], with_objects: bool) -> dict[str, Descriptor]:
    foreign = sorted(set(devices) - set(lock.packs))
    if foreign:
        hint = f"it has {', '.join(sorted(lock.packs))}"
        raise UsageError(f"the lockfile has no pack for {', '.join(foreign)}", hint=hint, where="--device")
    wanted = [lock.packs[device].blob for device in devices]
    if with_objects:
        wanted += [entry.object for entry in lock.entries if set(entry.devices) & set(devices)]
    return {blob_name(blob.stored_digest): blob for blob in wanted}


def _write(file: BinaryIO, members: Iterable[tuple[str, bytes]]) -> None:
    written: list[Member] = []
    for name, content in members:
        member = Member(name, len(content), zlib.crc32(content), file.tell())
        file.write(header_of(member))
        file.write(content)
        written.append(member)
    list_offset, listed = file.tell(), list_of(written)
    file.write(listed)
    file.write(end_of(len(written), len(listed), list_offset))


def _copy_signature(bundle: BundleStore, store: PruneStore, name: str) -> None:
    try:
        store.create(name, bundle.get(name, limit_bytes=SIZE_LIMIT_BYTES))
    except ObjectConflict as error:
        hint = "one of them was renewed: keep the store's, or publish the other with 'kernelforge sign --renew'"
        raise ObjectConflict("the store has another signature by this key", hint=hint, where=error.where) from error
