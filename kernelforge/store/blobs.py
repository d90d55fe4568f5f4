"""Blobs: content under the name of its own sha256, checked on every read.

A store's word is never enough: the descriptor, which comes from a lockfile or a build record, says which bytes are
right. Compression decides the stored bytes but not the content, so another version of zstandard may store the same
content as another blob; nothing else follows from that.
"""

from __future__ import annotations

import logging
from datetime import datetime, timezone

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectConflict, ObjectCorrupt
from kernelforge.store import frames
from kernelforge.store.interface import PruneStore, ReadStore
from kernelforge.store.layout import blob_name
from kernelforge.store.unpack import check_content

_log = logging.getLogger(__name__)


def put_blob(store: PruneStore, content: bytes, *, compress: bool = True) -> Descriptor:
    """Store ``content``, compressed where that makes it smaller, and say how.

    Bytes that do not match their own name answer nobody, so damage found under the blob's name is replaced, with a
    warning in the log and the evidence in quarantine. Raises what ``create`` and ``delete`` raise.
    """
    descriptor, stored = _encode(content, compress)
    name = blob_name(descriptor.stored_digest)
    try:
        store.create(name, stored)
    except ObjectConflict as conflict:
        # Imported here: pods read blobs, and start faster without what only writers need.
        from kernelforge.store.quarantine import Finder, keep_evidence, remove

        _log.warning("replacing a damaged blob: %s", conflict)
        damaged = keep_evidence(store, name, Finder("a build that makes it again", datetime.now(timezone.utc)))
        if damaged is not None:
            remove(store, damaged)
        store.create(name, stored)
    return descriptor


def get_blob(store: ReadStore, descriptor: Descriptor) -> bytes:
    """The content that ``descriptor`` promises, or an error: never other bytes.

    Allocates at most ``content_size_bytes`` beyond what ``get_stored`` reads. ``ObjectCorrupt`` if the content is
    another one; raises what ``get_stored`` raises.
    """
    stored = get_stored(store, descriptor)
    if descriptor.encoding == "raw":
        return stored
    where = f"{store.location}: {blob_name(descriptor.stored_digest)}"
    content = frames.decompress(stored, size_bytes=descriptor.content_size_bytes, where=where)
    check_content(Digest.of(content), descriptor, where=where)
    return content


def get_stored(store: ReadStore, descriptor: Descriptor) -> bytes:
    """The bytes that the store has for ``descriptor``, still encoded: at most ``stored_size_bytes`` are read.

    Bytes that fail their sha256 are read once more, since a proxy or a network may have damaged them on the way; then
    ``ObjectCorrupt``.
    """
    name = blob_name(descriptor.stored_digest)
    where = f"{store.location}: {name}"
    if descriptor.encoding == "zstd":
        frames.import_beside()
    stored = store.get(name, limit_bytes=descriptor.stored_size_bytes)
    if not _is(stored, descriptor.stored_digest):
        _log.warning("reading a blob again that failed its sha256: %s", where)
        stored = store.get(name, limit_bytes=descriptor.stored_size_bytes)
    if len(stored) != descriptor.stored_size_bytes or not _is(stored, descriptor.stored_digest):
        raise ObjectCorrupt("the bytes are not those that the name promises", hint="build again", where=where)
    return stored


def check_blob(store: ReadStore, descriptor: Descriptor) -> None:
    """One cheap request: ``ObjectMissing`` if the blob is not there, ``ObjectCorrupt`` if its size is wrong."""
    name = blob_name(descriptor.stored_digest)
    size_bytes = store.size(name)
    if size_bytes != descriptor.stored_size_bytes:
        problem = f"has {size_bytes} bytes instead of {descriptor.stored_size_bytes}"
        raise ObjectCorrupt(problem, hint="build again", where=f"{store.location}: {name}")


def _encode(content: bytes, compress: bool) -> tuple[Descriptor, bytes]:
    raw = Descriptor.raw(content)
    if not compress:
        return raw, content
    frame = frames.compress(content)
    if len(frame) >= len(content):
        return raw, content
    return Descriptor(Digest.of(frame), len(frame), "zstd", raw.content_digest, raw.content_size_bytes), frame


def _is(data: bytes, digest: Digest) -> bool:
    return Digest.of(data) == digest
