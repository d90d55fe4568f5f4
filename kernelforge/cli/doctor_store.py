"""Does the store do what kernelforge relies on, and do these credentials permit what their role needs?

What a store gets wrong (it ignores a condition, keeps damaged bytes) is a failure whoever asks; what it does not permit
is one only where the role needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernelforge.cli.doctor_check import Check, Status
from kernelforge.digest import Digest
from kernelforge.errors import KernelForgeError
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import QUARANTINE_PREFIX, blob_name, signature_name
from kernelforge.store.probe import Ability, Finding, Outcome, probe_reading, probe_writing

#: The commands that cannot work without an ability, or not safely where it is ignored.
_NEEDED_BY = {
    Ability.READ: ("plan", "build", "verify", "pull", "inspect", "explain", "promote", "bundle", "gc"),
    Ability.CREATE: ("build", "sign", "promote", "gc --run"),
    Ability.READ_BACK: ("build", "promote"),
    Ability.CREATE_ONLY: ("build", "sign", "promote"),
    Ability.CHECKSUM: (),
    Ability.LIST: ("gc", "inspect of a store", "verify --deep of a store"),
    Ability.CLOCK: ("gc --run",),
    Ability.REPLACE: ("promote", "gc --run"),
    Ability.DELETE_IF: ("gc --run",),
    Ability.DELETE: ("gc --run", "repair of damaged blobs by build"),
}
_CI = {Ability.READ, Ability.CREATE, Ability.READ_BACK, Ability.CREATE_ONLY, Ability.CHECKSUM}
#: What each role has to be permitted, see the policies in registry/deploy.
ROLES = {
    "pod": {Ability.READ},
    "ci": _CI,
    "release": _CI | {Ability.REPLACE},
    "gc": set(Ability),
}
#: Where each role that writes is tried: in a place of its own work, see ``probe_writing``.
_PLACES: dict[str, Callable[[Digest], str]] = {
    "ci": blob_name,
    "release": lambda digest: signature_name(digest, "0" * 64),
    "gc": lambda digest: f"{QUARANTINE_PREFIX}probe/{digest.hex}",
}
_FIXES = {
    Ability.READ_BACK: "use a store that shows what was written at once, or turn off the cache before it",
    Ability.CREATE_ONLY: "use a store that honours If-None-Match on PUT, or builds overwrite each other",
    Ability.CHECKSUM: "use a store that checks x-amz-checksum-sha256; until then 'verify --deep' finds the damage",
    Ability.LIST: "use a store whose listings are complete",
    Ability.CLOCK: "set the clocks: the age of objects decides what may be deleted",
    Ability.REPLACE: "use a store that honours If-Match on PUT, or two promotions overwrite each other",
    Ability.DELETE_IF: "do not run gc --run here: it would delete what somebody has just written again",
    Ability.DELETE: "look for versioning or retention rules of the bucket",
}


def check_store(store: PruneStore, role: str) -> Iterator[Check]:
    """One check for each ability; a pod's credentials are tried for reading only."""
    try:
        reading = probe_reading(store)
    except KernelForgeError as error:
        yield Check.failed("store", error)
        return
    yield Check("store", Status.OK, store.location) if reading.error is None else Check.failed("store", reading.error)
    yield _check(reading, role)
    if role in _PLACES and reading.outcome is Outcome.WORKS:
        for finding in probe_writing(store, _PLACES[role]):
            yield _check(finding, role)


def _check(finding: Finding, role: str) -> Check:
    name, needed_by = f"store: {finding.ability.value}", _NEEDED_BY[finding.ability]
    if finding.outcome is Outcome.WORKS:
        return Check(name, Status.OK, finding.found or "works")
    if finding.error is None:
        return Check(name, Status.FAILED, finding.found, _FIXES[finding.ability], stops=needed_by)
    if finding.ability in ROLES[role]:
        return Check(name, Status.FAILED, finding.found, finding.error.hint, stops=needed_by)
    return Check(name, Status.WARNING, finding.found, f"nothing, for the role {role}", stops=needed_by)
