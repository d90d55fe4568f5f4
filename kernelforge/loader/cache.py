"""The local folder of packs that were loaded before: safe to delete, never trusted.

A pack's file is named by the sha256 of its content and is read back whole, so that whoever uses it can check that
sha256 each time; a damaged file is replaced by the next write. Files are published by renaming a finished one, so
processes that share the folder need no lock. Knows no store and no lockfile.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kernelforge.digest import Digest
from kernelforge.errors import UnsafeCache

_FOLDER_MODE = 0o700
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class PackCache:
    """Packs under ``<root>/packs``. Nothing is made before the first ``write``.

    ``read`` and ``write`` raise ``UnsafeCache`` for a folder that belongs to another user (root excepted) or that
    others may write to, and ``OSError`` as the file system raises it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._packs = root / "packs"

    def path_of(self, content: Digest) -> Path:
        """Where the pack with this content is, or would be."""
        return self._packs / f"{content.hex}.so"

    def read(self, content: Digest, *, limit_bytes: int) -> bytes:
        """Up to ``limit_bytes`` of the file, unchecked; ``FileNotFoundError`` if the pack was never written."""
        self._refuse_unsafe()
        with open(self.path_of(content), "rb") as file:
            return file.read(limit_bytes)

    def write(self, content: Digest, data: bytes) -> Path:
        """Publish a pack and return its path. Readers see the old file or all of the new one."""
        self._root.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self._root, self._packs):
            folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        self._refuse_unsafe()
        path = self.path_of(content)
        unfinished = self._packs / f".unfinished-{os.urandom(8).hex()}"
        try:
            with open(unfinished, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path

    def _refuse_unsafe(self) -> None:
        for folder in (self._root, self._packs):
            try:
                status = folder.stat()
            except FileNotFoundError:
                return
            if status.st_uid not in (os.geteuid(), 0):
                raise _unsafe(folder, f"it belongs to user {status.st_uid}, this process is user {os.geteuid()}")
            if status.st_mode & _WRITABLE_BY_OTHERS:
                raise _unsafe(folder, f"its mode {stat.S_IMODE(status.st_mode):o} lets other users write to it")


def _unsafe(folder: Path, why: str) -> UnsafeCache:
    return UnsafeCache(
        f"the cache folder is not used: {why}",
        hint="name a folder that does not exist yet (it is made with mode 700), or 'chmod 700' one of your own",
        where=str(folder),
    )
