"""A lockfile's bytes out of a store, where their own sha256 is their name. Whether to trust them is asked elsewhere."""

from __future__ import annotations

import logging

from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt
from kernelforge.lockfile import SIZE_LIMIT_BYTES
from kernelforge.store.interface import ReadStore
from kernelforge.store.layout import lock_name

_log = logging.getLogger(__name__)


def stored_lock(store: ReadStore, digest: Digest) -> bytes:
    """The bytes with this sha256, unparsed; never others.

    Read once more if they are not these, since a proxy or a network may have damaged them on the way; then
    ``ObjectCorrupt``. Raises what ``get`` raises.
    """
    name = lock_name(digest)
    where = f"{store.location}: {name}"
    data = store.get(name, limit_bytes=SIZE_LIMIT_BYTES)
    if Digest.of(data) != digest:
        _log.warning("reading a lockfile again that failed its sha256: %s", where)
        data = store.get(name, limit_bytes=SIZE_LIMIT_BYTES)
    if Digest.of(data) != digest:
        hint = "publish the lockfile again from git, and find out who changed it"
        raise ObjectCorrupt("the bytes are not those that the name promises", hint=hint, where=where)
    return data
