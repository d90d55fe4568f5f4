"""The right to delete: held by one sweep at a time, for a minute, then renewed or lost.

The document is ``store.sweeps.Lease``, which says what its rounds promise to publishers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone

from kernelforge.errors import KernelForgeError, ObjectConflict, ObjectMissing, SweepRefused
from kernelforge.release.utc import utc_text
from kernelforge.store.interface import PruneStore
from kernelforge.store.sweeps import CLOCKS_DIFFER_S, LEASE, NEVER, SIZE_LIMIT_BYTES, Lease

_log = logging.getLogger(__name__)

#: For how long a round may begin deletions, and how long the last of them may take. A call to a remote store ends
#: within 20 s.
ROUND_S = 60.0
LAST_CALL_S = 30.0


class HeldLease:
    """A lease of ours. Not for several threads, but for ``may_delete``."""

    def __init__(self, store: PruneStore, lease: Lease, now_s: Callable[[], float]) -> None:
        self._store = store
        self._lease = lease
        self._now_s = now_s
        self._version = self._seen_version()

    @property
    def round(self) -> int:
        """How far the sweep is; nothing was deleted in round 0."""
        return self._lease.round

    def may_delete(self) -> bool:
        """Whether a deletion may begin now. Ask before each one: this process may have been stopped for an hour."""
        ends_s = self._lease.ends_s
        return self._lease.round > 0 and ends_s is not None and self._now_s() < ends_s - LAST_CALL_S

    def next_round(self) -> None:
        """Write the next round down; ``SweepRefused`` if somebody else has the lease by now."""
        self._write(replace(self._lease, round=self._lease.round + 1, ends_s=self._now_s() + ROUND_S + LAST_CALL_S))
        self._version = self._seen_version()

    def release(self) -> None:
        """Say that the sweep is over."""
        self._write(replace(self._lease, ends_s=None))

    def started_s(self) -> float:
        """When the lease was taken or renewed last, by the store's clock."""
        for found in self._store.listed(LEASE):
            if found.name == LEASE:
                return found.modified_s
        raise _lost(f"{self._store.location}: {LEASE}")

    def _write(self, lease: Lease) -> None:
        try:
            self._store.replace(LEASE, lease.to_bytes(), version=self._version)
        except ObjectConflict as error:
            raise _lost(error.where) from error
        self._lease = lease

    def _seen_version(self) -> str:
        try:
            data, version = self._store.get_versioned(LEASE, limit_bytes=SIZE_LIMIT_BYTES)
        except ObjectMissing as error:
            raise _lost(error.where) from error
        if data != self._lease.to_bytes():
            raise _lost(f"{self._store.location}: {LEASE}")
        return version


@contextlib.contextmanager
def hold_lease(store: PruneStore, *, now_s: Callable[[], float]) -> Iterator[HeldLease]:
    """Hold the lease for the block; ``SweepRefused`` if somebody else does.

    After an error in the middle of deleting, it is left to run out: a deletion may still be on its way, and until it
    has arrived, publishers must not believe that none is.
    """
    held = HeldLease(store, _take(store, now_s()), now_s)
    try:
        yield held
    except BaseException:
        if held.round == 0:
            try:
                held.release()
            except KernelForgeError as error:
                _log.warning("the lease is left to run out: %s", error)
        raise
    held.release()


def _take(store: PruneStore, now_s: float) -> Lease:
    where = f"{store.location}: {LEASE}"
    holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        data, version = store.get_versioned(LEASE, limit_bytes=SIZE_LIMIT_BYTES)
        last = Lease.parse(data, where=where)
    except ObjectMissing:
        last, version = NEVER, ""
    if last.ends_s is not None and last.is_held(now_s):
        raise _held_by(last, last.ends_s, where)
    lease = Lease(last.number + 1, 0, holder, now_s + ROUND_S + LAST_CALL_S)
    try:
        if version:
            store.replace(LEASE, lease.to_bytes(), version=version)
        else:
            store.create(LEASE, lease.to_bytes())
    except ObjectConflict as error:
        raise _lost(where) from error
    return lease


def _held_by(lease: Lease, ends_s: float, where: str) -> SweepRefused:
    until = utc_text(datetime.fromtimestamp(ends_s + CLOCKS_DIFFER_S, timezone.utc))
    return SweepRefused(
        f"another garbage collection is at work: {lease.holder}, round {lease.round}",
        hint=f"wait for it; if it died, this one can start at {until}",
        where=where,
    )


def _lost(where: str) -> SweepRefused:
    hint = "wait for the other 'kernelforge gc', then run this one again if it is still wanted"
    return SweepRefused("another garbage collection has taken over", hint=hint, where=where)
