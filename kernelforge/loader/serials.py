"""The highest serial that this machine has seen of each channel, so that an old ref that is put back is recognised.

Under the cache folder, ``serials/<deployment>/<channel>/`` has an empty file named by the serial; the highest counts.
Making a file is atomic and serials only grow, so processes share the folder without a lock, and nothing in it can be
half written. An optimisation, like all of the cache: where it cannot be kept, that is said once, and a channel is only
held against the ``minimum_serial`` that the caller gives. Knows no refs.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelforge.loader.cache import PackCache

_log = logging.getLogger(__name__)

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


class SerialMemory:
    """What ``cache`` remembers; nothing if it is None. A folder that others can write to raises ``UnsafeCache``.

    ``is_read_only``: it is asked and nothing is kept, which is no reason to warn.
    """

    _has_warned = False  # of the class: a process says it once, however many channels it loads

    def __init__(self, cache: PackCache | None, *, is_read_only: bool = False) -> None:
        self._cache = cache
        self._is_read_only = is_read_only

    def highest(self, deployment: str, channel: str) -> int:
        """The highest serial that was kept; 0 if there is none. Both names have to be words, as in a ref's name."""
        if self._cache is None:
            return 0
        try:
            self._cache.refuse_unsafe()
            return max(_serials(self._folder(self._cache, deployment, channel)), default=0)
        except FileNotFoundError:
            return 0
        except OSError as error:
            self._warn(str(error))
            return 0

    def keep(self, deployment: str, channel: str, serial: int) -> None:
        """Remember a serial, once everything that it stands for has been believed."""
        if self._is_read_only:
            return
        if self._cache is None:
            self._warn("there is no cache folder")
            return
        try:
            self._cache.prepare()
            folder = self._folder(self._cache, deployment, channel)
            for made in (folder.parent.parent, folder.parent, folder):
                made.mkdir(mode=_FOLDER_MODE, exist_ok=True)
            os.close(os.open(folder / str(serial), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _FILE_MODE))
            for older in _serials(folder):
                if older < serial:
                    (folder / str(older)).unlink(missing_ok=True)
        except OSError as error:
            self._warn(str(error))

    @staticmethod
    def _folder(cache: PackCache, deployment: str, channel: str) -> Path:
        return cache.root / "serials" / deployment / channel

    @classmethod
    def _warn(cls, why: str) -> None:
        if not cls._has_warned:
            _log.warning("serials of channels are not remembered, so only minimum_serial holds off an old ref: %s", why)
        cls._has_warned = True


def _serials(folder: Path) -> list[int]:
    return [int(name) for name in os.listdir(folder) if name.isascii() and name.isdigit()]
