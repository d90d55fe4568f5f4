"""What the loaded kernels would have cost to compile: CPU seconds out of the build facts, for reports only.

Facts decide nothing about what is loaded, so whatever is wrong with them costs the number and not the load.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from kernelforge.errors import LockfileError
from kernelforge.loader.stats import Counters
from kernelforge.lockfile import LockedEntry
from kernelforge.release.facts import read_facts

_log = logging.getLogger(__name__)


def seconds_saved(facts: Path, entries: Iterable[LockedEntry], counters: Counters) -> float | None:
    """Sum of the seconds of those entries that the facts know; None, with one warning, where they know none.

    Facts are by key digest, so those of another lockfile count for the keys that both have.
    """
    try:
        known = read_facts(facts)
        seconds = [float(known[key]["seconds"]) for entry in entries if (key := str(entry.key_digest)) in known]
    except (LockfileError, KeyError, TypeError, ValueError) as error:
        counters.add_error(error)
        _log.warning("seconds saved are not known, the build facts cannot be read: %s: %r", facts, error)
        return None
    if not seconds:
        _log.warning("seconds saved are not known: %s is absent, or has none of the loaded keys", facts)
        return None
    return sum(seconds)
