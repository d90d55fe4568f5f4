"""Mirrors before a store: what is near is asked first, and gets what it lacks.

Mirrors serve only what proves itself: blobs and lockfiles, whose names say which bytes are right. All else is asked of
the store itself, as is everything that the mirrors do not have. Trouble with a mirror is never an error and never
hidden: it is logged, and handed to whoever made this reader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kernelforge.digest import Digest
from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing, StoreError
from kernelforge.store.interface import PruneStore, ReadStore, Traffic
from kernelforge.store.layout import digest_in

_log = logging.getLogger(__name__)


class ReadThroughStore(ReadStore):
    """``origin`` behind ``mirrors``, the nearest one first.

    A mirror with damaged bytes gets the right ones. One that gives no answer is not asked again by this reader, and one
    that refuses to keep something is not asked to keep anything more, so neither costs its deadline twice.
    ``on_trouble`` gets every error of a mirror but absences.
    """

    def __init__(
        self,
        mirrors: Sequence[PruneStore],
        origin: ReadStore,
        *,
        on_trouble: Callable[[StoreError], None] = lambda error: None,
    ) -> None:
        self._readable = list(mirrors)
        self._writable = list(mirrors)
        self._stores = (*mirrors, origin)
        self._origin = origin
        self._on_trouble = on_trouble

    @property
    def location(self) -> str:
        return self._origin.location

    @property
    def traffic(self) -> Traffic:
        return sum((store.traffic for store in self._stores), Traffic())

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        digest = digest_in(name)
        without: list[PruneStore] = []
        data = None
        for mirror in tuple(self._readable) if digest else ():
            data = self._from_mirror(mirror, name, limit_bytes, without)
            if data is not None:
                break
        if data is None:
            data = self._origin.get(name, limit_bytes=limit_bytes)
        for mirror in without:
            if mirror in self._writable and Digest.of(data) == digest:
                self._keep(mirror, name, data)
        return data

    def size(self, name: str) -> int:
        """Size of the origin's object: whoever asks for sizes asks whether the object is in the store."""
        return self._origin.size(name)

    def _from_mirror(self, mirror: PruneStore, name: str, limit_bytes: int, without: list[PruneStore]) -> bytes | None:
        """The right bytes, if ``mirror`` has them; it is added to ``without`` if they should be brought to it."""
        try:
            data = mirror.get(name, limit_bytes=limit_bytes)
            if Digest.of(data) == digest_in(name):
                return data
            where = f"{mirror.location}: {name}"
            raise ObjectCorrupt(
                "the bytes are not those that the name promises", hint="none: it is refilled", where=where
            )
        except ObjectMissing:
            without.append(mirror)
        except ObjectCorrupt as error:
            without.append(mirror)
            self._note(error)
        except StoreError as error:
            if mirror in self._readable:
                self._readable.remove(mirror)
            self._note(error)
        return None

    def _keep(self, mirror: PruneStore, name: str, data: bytes) -> None:
        try:
            try:
                mirror.create(name, data)
            except ObjectConflict:
                mirror.delete(name)
                mirror.create(name, data)
        except StoreError as error:
            if mirror in self._writable:
                self._writable.remove(mirror)
            self._note(error)

    def _note(self, error: StoreError) -> None:
        _log.warning("a mirror is passed over: %s", error)
        self._on_trouble(error)
