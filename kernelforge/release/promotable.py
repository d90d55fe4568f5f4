"""What a lockfile must be before a channel may point at it: whole, signed, this deployment's, built where releases are.

In this order, so that nothing is parsed that no trusted key signed, and nothing is asked for that will not be used.
Knows nothing of channels.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing, PromotionRefused, StoreError
from kernelforge.lockfile import Lockfile
from kernelforge.release.keys import PublicKey
from kernelforge.release.signature import stored_signatures, trusted_statement
from kernelforge.release.stored_lock import stored_lock
from kernelforge.store.blobs import check_blob
from kernelforge.store.interface import ReadStore
from kernelforge.store.layout import lock_name

#: Where releases are built. What a pull request built has another domain, whoever signed it.
RELEASE_DOMAINS = frozenset({"release"})
_CHECKS_AT_ONCE = 32


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
    blobs = {pack.blob for pack in lock.packs.values()} | {entry.object for entry in lock.entries}

    def check(blob: Descriptor) -> StoreError | None:
        try:
            check_blob(store, blob)
        except (ObjectMissing, ObjectCorrupt) as error:
            return error
        return None

    with ThreadPoolExecutor(_CHECKS_AT_ONCE) as pool:
        problems = [problem for problem in pool.map(check, blobs) if problem is not None]
    if problems:
        first = min(problems, key=str)
        kind = ObjectMissing if isinstance(first, ObjectMissing) else ObjectCorrupt
        problem = f"{len(problems)} of its {len(blobs)} packs and objects cannot be used; {first.problem}"
        raise kind(problem, hint="build again with the same --store", where=first.where) from first
