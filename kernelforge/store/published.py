"""Which lockfiles a domain has published: the reason why a later build of that domain may take a lockfile's word.

A lockfile comes out of git, where anybody's branch may have put it. If a build believed it because the blobs that it
names are in the store, a release build would take over what a pull request built. So a build leaves a record of the
lockfile that it published, in its own domain and under the lockfile's digest; a lockfile without one vouches for
nothing, and its keys are looked up in the domain's records one by one. The record's outputs are the packs, so garbage
collection treats it like any other.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectMissing
from kernelforge.store.actions import ActionCache, BuildRecord


def record_published(cache: ActionCache, lock: Digest, packs: Mapping[str, Descriptor]) -> None:
    """Say that this domain has published ``lock``, once everything that it names is there."""
    cache.put(BuildRecord(lock, packs, {}, 0.0, {"lockfile": str(lock)}))


def is_published(cache: ActionCache, lock: Digest) -> bool:
    """Whether this domain has published ``lock``, in one request. Raises what ``ActionCache.get`` raises, if not
    ``ObjectMissing``.
    """
    try:
        record = cache.get(lock)
    except ObjectMissing:
        return False
    return record.preimage == {"lockfile": str(lock)}
