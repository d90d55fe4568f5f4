"""Many requests at once, and never more than a few results in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

# As many as a store keeps connections.
_REQUESTS = 32


def in_parallel(
    call: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, results_ahead: int = 256
) -> Iterator[ResultT]:
    """``call`` of each item, in order; the first error ends it. ``results_ahead`` bounds what waits to be taken."""
    remaining = iter(items)
    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="kernelforge-gc") as pool:
        while part := list(itertools.islice(remaining, results_ahead)):
            yield from pool.map(call, part)
