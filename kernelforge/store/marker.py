"""``kf.json``: which layout a store has, so that an old program does not misread a newer one.

Whoever is about to rely on names in a store calls ``check``, whoever is about to write calls ``claim``, once each.
Readers of a single blob need neither: its digest is proof enough.
"""

from __future__ import annotations

from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing
from kernelforge.store.documents import from_bytes, to_bytes
from kernelforge.store.interface import ReadStore, WriteStore
from kernelforge.store.layout import MARKER

SCHEMA = "kernelforge.store/1"
_LIMIT_BYTES = 64 << 10


def check(store: ReadStore) -> None:
    """``FormatUnknown`` if the store has another major version; a store with no marker is a new one.

    ``ObjectCorrupt`` for a marker that cannot be read: nobody can tell the version then, so it is never replaced.
    """
    try:
        data = store.get(MARKER, limit_bytes=_LIMIT_BYTES)
        from_bytes(data, schema=SCHEMA, where=f"{store.location}: {MARKER}")
    except ObjectMissing:
        return
    except ObjectCorrupt as error:
        hint = f"if everything else in the store is named v1/..., delete {MARKER}: the next build writes it again"
        raise ObjectCorrupt(f"the format marker is damaged: {error.problem}", hint=hint, where=error.where) from error


def claim(store: WriteStore) -> None:
    """Leave our marker in a new store, or ``check`` the one that is there."""
    try:
        store.create(MARKER, to_bytes({"schema": SCHEMA}, where=MARKER))
    except ObjectConflict:
        check(store)
