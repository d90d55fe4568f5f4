"""Asks about many blobs at once: which of them are lost or damaged. Decides nothing, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from kernelforge.descriptor import Descriptor
from kernelforge.errors import ObjectCorrupt, ObjectMissing
from kernelforge.store.blobs import check_blob
from kernelforge.store.interface import ReadStore

#: Why a blob cannot be used.
Fault = ObjectMissing | ObjectCorrupt
# One request of 30 ms each: 300 take 0.57 s with 32 threads.
_THREADS = 32


def faults(
    store: ReadStore, blobs: Iterable[Descriptor], check: Callable[[ReadStore, Descriptor], object] = check_blob
) -> dict[Descriptor, Fault]:
    """Those of ``blobs`` that are not there or not right, each asked for once, many at a time.

    ``check`` is ``check_blob``, or ``get_blob`` to read them all. Raises what it raises beyond these two errors.
    """

    def ask(blob: Descriptor) -> Fault | None:
        try:
            check(store, blob)
        except (ObjectMissing, ObjectCorrupt) as error:
            return error
        return None

    asked = list(dict.fromkeys(blobs))
    with ThreadPoolExecutor(_THREADS) as threads:
        return {blob: fault for blob, fault in zip(asked, threads.map(ask, asked), strict=True) if fault is not None}
