"""Early cut-off: sources changed, and the compiler would be given the same as before.

A moved helper or dead code gives a key another digest and traces to the same IR. Everything behind the trace is a
function of IR, options, target and compiler, so the object of the previous release is the one that would be made; of a
GEMM's 0.4 to 1.4 s only the trace is spent. Here is what could be reused; whether it is, the compiling process decides.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing, StoreError
from kernelforge.plan import Miss, PlannedKey
from kernelforge.store.actions import ActionCache, BuildRecord
from kernelforge.store.blobs import check_blob
from kernelforge.store.interface import ReadStore

logger = logging.getLogger(__name__)

# The fact in which a record keeps the digest of the traced IR.
IR_DIGEST = "ir_digest"
_THREADS = 16


def earlier_records(misses: Iterable[PlannedKey], store: ReadStore, cache: ActionCache) -> dict[Digest, BuildRecord]:
    """Key digest of a miss -> the record whose outputs it gets if it traces to the same IR.

    A request for the record and one for each of its outputs, for every miss of which nothing but sources has changed.
    What cannot be had is compiled: trouble is logged, and met again when results are published.
    """
    asked = [key for key in misses if isinstance(key.decision, Miss) and key.decision.earlier is not None]
    if not asked:
        return {}
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(lambda key: _earlier(key, store, cache), asked)
        return {key.key_digest: record for key, record in zip(asked, found, strict=True) if record is not None}


def _earlier(key: PlannedKey, store: ReadStore, cache: ActionCache) -> BuildRecord | None:
    assert isinstance(key.decision, Miss)
    assert key.decision.earlier is not None
    try:
        record = cache.get(key.decision.earlier)
        for blob in record.outputs.values():
            check_blob(store, blob)
    except (ObjectMissing, ObjectCorrupt) as error:
        logger.info("the object of the previous release cannot be reused: %s", error)
        return None
    except StoreError as error:
        logger.warning("the object of the previous release is not asked for any more: %s", error)
        return None
    differing = {label for label, value in key.preimage.to_json().items() if record.preimage.get(label) != value}
    is_usable = differing == {"source"} and "object" in record.outputs and bool(record.facts.get(IR_DIGEST))
    return record if is_usable else None
