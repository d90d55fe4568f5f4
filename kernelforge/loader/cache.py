"""The local folder of packs that were loaded before: safe to delete, never trusted.

A pack's file is named by the sha256 of its content and is read back whole, so that whoever uses it can check that
sha256 each time; a damaged file is replaced by the next write. Files are published by renaming a finished one, so
processes that share the folder need no lock. Knows no store and no lockfile.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from kernelforge.digest import Digest
from kernelforge.errors import UnsafeCache
from kernelforge.loader.file_access import WRITABLE_BY_OTHERS, FileBytes, read_file

_log = logging.getLogger(__name__)

_FOLDER_MODE = 0o700
_UNFINISHED = ".unfinished-"
_FETCHING = ".fetching-"
# No fetch and no write takes that long, so whoever made the file was killed.
_LEFTOVER_AGE_S = 3600.0


class PackCache:
    """Packs under ``<root>/packs``. Nothing is made before the first ``write`` or ``prepare``.

    ``read``, ``prepare`` and ``write`` raise ``UnsafeCache`` for a folder that belongs to another user (root excepted)
    or that others may write to, and ``OSError`` as the file system raises it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._packs = root / "packs"

    @property
    def root(self) -> Path:
        """The cache folder."""
        return self._root

    def path_of(self, content: Digest) -> Path:
        """Where the pack with this content is, or would be."""
        return self._packs / f"{content.hex}.so"

    def lock_of(self, content: Digest) -> Path:
        """The file that whoever fetches this pack locks, see ``single_flight``."""
        return self._packs / f"{_FETCHING}{content.hex}"

    def read(self, content: Digest, *, limit_bytes: int) -> FileBytes:
        """Up to ``limit_bytes`` of the file, unchecked.

        ``FileNotFoundError`` if the pack was never written, ``PackCorrupt`` if something else stands in its place.
        """
        self.refuse_unsafe()
        return read_file(os.fspath(self.path_of(content)), limit_bytes=limit_bytes)

    def prepare(self) -> None:
        """Make the folders, closed to others."""
        self._root.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self._root, self._packs):
            folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        self.refuse_unsafe()

    def write(self, content: Digest, fill: Callable[[BinaryIO], object]) -> Path:
        """Publish the pack that ``fill`` writes and return its path; if it raises, nothing is published.

        Readers see the old file or all of the new one. Not forced onto the disk, which takes longer than the rest of a
        load: what a power failure tears is found by its sha256 and fetched again.
        """
        self.prepare()
        path = self.path_of(content)
        unfinished = self._packs / f"{_UNFINISHED}{os.urandom(8).hex()}"
        try:
            with open(unfinished, "xb") as file:
                fill(file)
            _publish(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        self._sweep()
        return path

    def _sweep(self) -> None:
        """Remove what killed processes left. Finished packs are never touched: somebody may be about to open them."""
        oldest = time.time() - _LEFTOVER_AGE_S
        with os.scandir(self._packs) as found:
            leftovers = [entry for entry in found if entry.name.startswith((_UNFINISHED, _FETCHING))]
        for entry in leftovers:
            try:
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    os.unlink(entry.path)
            except OSError as error:  # another writer sweeps too, or it is another user's
                _log.debug("a leftover stays: %s", error)

    def refuse_unsafe(self) -> None:
        """``UnsafeCache`` for folders that belong to another user or that others may write to."""
        for folder in (self._root, self._packs):
            try:
                status = folder.stat()
            except FileNotFoundError:
                return
            if status.st_uid not in (os.geteuid(), 0):
                raise self._unsafe(folder, f"it belongs to user {status.st_uid}, this process is user {os.geteuid()}")
            if status.st_mode & WRITABLE_BY_OTHERS:
                raise self._unsafe(folder, f"its mode {stat.S_IMODE(status.st_mode):o} lets other users write to it")

    def _unsafe(self, folder: Path, why: str) -> UnsafeCache:
        return UnsafeCache(
            f"the cache folder is not used: {why}",
            hint=f"name a folder that does not exist yet, such as {self._root / 'kernelforge'} (it is made with mode "
            "700; an emptyDir of Kubernetes is open to all, a folder in it is not), or 'chmod 700' one of your own",
            where=str(folder),
        )


def _publish(unfinished: Path, path: Path) -> None:
    try:
        os.replace(unfinished, path)
    except IsADirectoryError:
        # Damage, and perhaps somebody's only copy of something: moved out of the way, not destroyed.
        os.rename(path, path.with_name(f".moved-{os.urandom(8).hex()}"))
        os.replace(unfinished, path)
