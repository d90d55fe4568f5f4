"""Writes down which keys this process missed, for ``kernelforge build --misses`` (``kernelforge.misses/1``).

One file per process, replaced at each new miss: ranks that share the folder never wait for or overwrite each other.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelforge.digest import Digest
from kernelforge.loader.whole_file import replace_file
from kernelforge.misses import FILE_SUFFIX, MissedKey, Misses
from kernelforge.target import Target

_log = logging.getLogger(__name__)


class MissLog:
    """Misses with one lockfile on one device. ``folder`` is made when the first is recorded; None: nowhere to write.

    A folder that cannot be written costs the record and one warning, never the kernel.
    """

    def __init__(self, folder: Path | None, *, lockfile: Digest, device: str, target: Target) -> None:
        self._path = folder and folder / f"{os.getpid()}-{os.urandom(4).hex()}{FILE_SUFFIX}"
        self._lockfile = lockfile
        self._device = device
        self._target = target
        self._missed: list[MissedKey] = []
        self._has_warned = False

    def add(self, kernel: str, compile_key: Mapping[str, Any], *, seconds: float) -> None:
        """Record one key, once per process, and what waiting for it took."""
        self._missed.append(MissedKey(kernel, compile_key, self._target, self._device, 1, seconds))
        if self._path is None:
            self._warn("there is no folder for them: give misses= or a cache folder")
            return
        try:
            replace_file(self._path, Misses(self._lockfile, tuple(self._missed)).to_bytes())
        except OSError as error:
            self._warn(f"{self._path}: {error.strerror or error}")

    def _warn(self, why: str) -> None:
        if not self._has_warned:
            _log.warning("missed keys are not written down for the next build: %s", why)
        self._has_warned = True
