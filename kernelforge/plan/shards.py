"""Which machine of several compiles which keys: the same answer on each of them, whatever the others have done by now.

So all keys are dealt out and not the misses, by what they took for the previous lockfile and not by what a store says.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from kernelforge.digest import Digest
from kernelforge.plan.values import PlannedKey

# A small kernel's, where no seconds are on record at all.
_TYPICAL_S = 0.2


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``count``; the first is 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def shard_numbers(keys: Sequence[PlannedKey], count: int) -> dict[Digest, int]:
    """Key digest -> number of its shard, 1 to ``count``.

    The longest first, each to the shard that has least to do: no shard takes more than 4/3 of the shortest time that is
    possible (Graham 1969, for seconds that are right). What was never compiled counts like the median of the others.
    """
    known = [key.seconds_before for key in keys if key.seconds_before is not None]
    typical_s = statistics.median(known) if known else _TYPICAL_S
    seconds = {key.key_digest: typical_s if key.seconds_before is None else key.seconds_before for key in keys}
    loads = [0.0] * count
    numbers = {}
    for digest in sorted(seconds, key=lambda digest: (-seconds[digest], digest)):
        least = loads.index(min(loads))
        loads[least] += seconds[digest]
        numbers[digest] = least + 1
    return numbers
