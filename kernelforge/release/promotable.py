"""What a lockfile must be before a channel may point at it: whole, signed, this deployment's, built where releases are.

In this order, so that nothing is parsed that no trusted key signed, and nothing is asked for that will not be used.
Knows nothing of channels.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime

from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing, PromotionRefused
from kernelforge.lockfile import Lockfile
from kernelforge.release.keys import PublicKey
from kernelforge.release.signature import stored_signatures, trusted_statement
from kernelforge.release.stored_lock import stored_lock
from kernelforge.store.faults import faults
from kernelforge.store.interface import ReadStore
from kernelforge.store.layout import lock_name

#: Where releases are built. What a pull request built has another domain, whoever signed it.
RELEASE_DOMAINS = frozenset({"release"})


def check_promotable(
    store: ReadStore,
    lock: Digest,
    *,
    deployment: str,
    trusted: Sequence[PublicKey],
    now: datetime,
    domains: Set[str] = RELEASE_DOMAINS,
) -> None:
    """Raise unless the store has the lockfile, a signature of it that holds, and everything that it names.

    ``UntrustedLockfile`` for a signature, ``PromotionRefused`` for a lockfile of another deployment or domain,
    ``ObjectMissing`` or ``ObjectCorrupt`` for what is not there, and what ``get`` raises.
    """
    where = f"{store.location}: {lock_name(lock)}"
    data = stored_lock(store, lock)
    statement = trusted_statement(lock, stored_signatures(store, lock), trusted=trusted, now=now, where=where)
    lockfile = Lockfile.parse(data, where=where)
    if lockfile.name != deployment:
        hint = f"promote it to a channel of {lockfile.name}"
        raise PromotionRefused(f"is a lockfile of {lockfile.name}, not of {deployment}", hint=hint, where=where)
    domain = statement.provenance.domain
    if domain not in domains:
        hint = f"build it with --domain release and sign that; if you mean it: --allow-domain {domain}"
        raise PromotionRefused(f"was built in the domain {domain!r}", hint=hint, where=where)
    _check_blobs(store, lockfile)


def _check_blobs(store: ReadStore, lock: Lockfile) -> None:
    """Every pack and object is asked for, and the first that is not there is named with the number of all."""
    found = faults(store, lock.blobs)
    if found:
        first = min(found.values(), key=str)
        kind = ObjectMissing if isinstance(first, ObjectMissing) else ObjectCorrupt
        problem = f"{len(found)} of its {len(lock.blobs)} packs and objects cannot be used; {first.problem}"
        raise kind(problem, hint="build again with the same --store", where=first.where) from first
