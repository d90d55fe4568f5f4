"""What a load decided, as one digest that the ranks of a job can compare before they run.

Ranks that run different kernels compute different numbers, or wait for each other for ever; no rank can see that alone.
So the digest covers what has to be the same on all of them and nothing that may differ, such as where the bytes came
from or how long it took. Knows no collective.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from kernelforge.digest import Digest

SCHEMA = "kernelforge.decision/1"


def decision_digest(*, lockfile: Digest, profile: str, pack: Digest, policy: str, missing: Iterable[str]) -> Digest:
    """Digest over the release, the device profile chosen from it, the pack's content, and what is done about misses.

    ``missing``: symbols of the keys that were required and are not in the lockfile, in any order.
    """
    document = {
        "schema": SCHEMA,
        "lockfile": str(lockfile),
        "profile": profile,
        "pack": str(pack),
        "policy": policy,
        "missing": sorted(set(missing)),
    }
    return Digest.of(json.dumps(document, sort_keys=True).encode())
