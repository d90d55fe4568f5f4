"""Puts what a verification found damaged into quarantine, and says of each finding what became of it.

Only objects whose bytes contradict their own name are moved: what a lockfile says wrongly about a sound blob moves
nothing. Knows findings and stores; how an object is moved is ``store.quarantine``'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from kernelforge.digest import Digest
from kernelforge.errors import StoreError
from kernelforge.release.verify import Finding
from kernelforge.store.interface import PruneStore
from kernelforge.store.quarantine import Damaged, Finder, set_aside

DAMAGE = frozenset({"missing-blob", "corrupt-blob", "corrupt-lock"})


def quarantined(findings: Sequence[Finding], store: PruneStore, *, lock: Digest, now: datetime) -> list[Finding]:
    """The findings, after the damage among them was moved out of the way and put on the store's list of damage.

    Where we may not write, or the store fails meanwhile, they say so and stay.
    """
    names = [finding.object for finding in findings if finding.kind in DAMAGE]
    try:
        moved = set_aside(store, names, Finder("kernelforge verify --deep", now, lock))
    except StoreError as error:
        return [_told(finding, f"not put into quarantine: {error}") for finding in findings]
    return [_outcome(finding, moved) for finding in findings]


def _outcome(finding: Finding, moved: Mapping[str, Damaged]) -> Finding:
    damaged = moved.get(finding.object)
    if damaged is None:
        return _told(finding, "its bytes are those that its name promises, so it was left where it is")
    if not damaged.evidence:
        return _told(finding, "it is on the store's list of damage, so the next build makes it again")
    told = _told(finding, f"it was moved, see {damaged.evidence}, and the next build makes it again")
    return replace(told, evidence=damaged.evidence)


def _told(finding: Finding, what: str) -> Finding:
    return replace(finding, text=f"{finding.text}; {what}") if finding.kind in DAMAGE else finding
