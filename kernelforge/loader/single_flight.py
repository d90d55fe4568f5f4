"""Processes of one node that need the same pack: one fetches it, the others wait for it to appear in the cache.

Only an optimisation, and built so that it cannot be more. The lock is the kernel's (``flock``), so it ends with its
holder, however that ends; the wait is bounded, because a holder may live and yet not get on; and where the file system
has no locks, everybody fetches. Knows no store and no cache, only a path.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


@dataclass(frozen=True)
class Turn:
    """How the caller got its turn. ``waited``: another had the lock. ``is_unlocked``: there are no locks here."""

    waited: bool
    is_unlocked: bool


@contextlib.contextmanager
def fetch_turn(lock_file: Path, *, wait_s: float) -> Iterator[Turn]:
    """Hold ``lock_file`` in the block, having waited for it up to ``wait_s``; the block runs in any case.

    Threads of one process take turns too. After ``waited`` look in the cache again before fetching. The file is made in
    a folder that must exist, and is gone afterwards.
    """
    ends_at = time.monotonic() + wait_s
    descriptor, waited, is_unlocked = None, False, False
    try:
        try:
            descriptor = _try_lock(lock_file)
            if descriptor is None:
                waited = True
                _log.info("another process fetches the pack: waiting for it up to %.1f s", wait_s)
                descriptor = _lock_by(ends_at, lock_file)
        except OSError as error:
            is_unlocked = True
            _log.log(_level(error), "fetching without a lock, others may do so too: %s: %s", lock_file, error)
        yield Turn(waited, is_unlocked)
    finally:
        if descriptor is not None:
            # Before the lock ends, so that nobody can lock a file that is not there any more and believe to be alone.
            with contextlib.suppress(OSError):  # swept, or the folder is deleted
                lock_file.unlink()
            os.close(descriptor)


def _lock_by(ends_at: float, lock_file: Path) -> int | None:
    """The locked descriptor, or None when the time is up. Tries again and again: a blocking flock has no time-out."""
    pause_limit_s = _FIRST_PAUSE_S
    while (left_s := ends_at - time.monotonic()) > 0:
        time.sleep(min(left_s, random.uniform(pause_limit_s / 2, pause_limit_s)))
        pause_limit_s = min(2 * pause_limit_s, _LONGEST_PAUSE_S)
        descriptor = _try_lock(lock_file)
        if descriptor is not None:
            return descriptor
    _log.warning("the process that fetches the pack has not finished: fetching it here too")
    return None


def _try_lock(lock_file: Path) -> int | None:
    """The locked descriptor, or None if another has the lock; ``OSError`` where there can be no lock."""
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_still(lock_file, descriptor):
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_still(lock_file: Path, descriptor: int) -> bool:
    """Whether the file that we locked has its name yet: its last holder has removed it, and another may be there."""
    try:
        named = os.stat(lock_file)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))


def _level(error: OSError) -> int:
    """A folder that cannot be written gets its one warning when the pack is written; no locks are news of their own."""
    unwritable = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT)
    return logging.DEBUG if error.errno in unwritable else logging.WARNING
