"""Folders that somebody else has filled and this process only reads: image layers, volumes, a node's shared folder.

Such a folder is laid out like a cache (``packs/<sha256>.so``, what ``kernelforge pull --cache`` makes) or like a file
store (``v1/blobs/...``, what a build publishes). Nothing in it is believed, and nothing is ever written.
"""

from __future__ import annotations

import os
from pathlib import Path

from kernelforge.descriptor import Descriptor
from kernelforge.loader.file_access import FileBytes, read_file


class Mount:
    """One read-only folder of packs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def path_of(self, blob: Descriptor) -> str:
        """Where the pack is in the layout of a cache, with symbolic links followed."""
        return os.path.realpath(self._folder / "packs" / f"{blob.content_digest.hex}.so")

    def read(self, blob: Descriptor) -> tuple[FileBytes, str | None]:
        """The pack's bytes, unchecked, and the file that holds just these; None for a file store.

        ``FileNotFoundError`` if the folder does not have the pack, ``NotADirectoryError`` if there is no such folder,
        ``PackCorrupt`` if the pack's place holds no file; ``StoreError`` as a file store raises it.
        """
        path = self.path_of(blob)
        try:
            return read_file(path, limit_bytes=blob.content_size_bytes + 1), path
        except FileNotFoundError:
            if os.path.isdir(self._folder / "v1"):
                return self._from_store(blob), None
            if not os.path.isdir(self._folder):
                raise NotADirectoryError(f"there is no folder {self._folder}") from None
            raise

    def _from_store(self, blob: Descriptor) -> bytes:
        from kernelforge.store.blobs import get_blob
        from kernelforge.store.file import FileStore

        return get_blob(FileStore(self._folder), blob)
