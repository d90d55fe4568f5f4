"""Answers one question about a lockfile: may it be served from this store?

Everything that is wrong is found, not only the first. ``deep`` reads and hashes every byte; without it only presence
and size of the packs are asked. Changes nothing: what becomes of damage is ``quarantine``'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing
from kernelforge.lockfile import Lockfile
from kernelforge.release.stored_lock import stored_lock
from kernelforge.store.blobs import check_blob, get_blob
from kernelforge.store.faults import Fault, faults
from kernelforge.store.interface import ReadStore
from kernelforge.store.layout import blob_name, lock_name
from kernelforge.target import Target

#: The architectures that the device code in an object or a pack is for.
ArchitecturesIn = Callable[[bytes], frozenset[str]]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: ``kind`` is a word for programs, ``text`` a sentence with what to do.

    ``object`` is the name of what is damaged in the store, ``evidence`` that of what was kept of it in quarantine;
    both are empty where there is none.
    """

    kind: str
    subject: str
    text: str
    object: str = ""
    evidence: str = ""


def verify_pin(lock_bytes: bytes, pin: Digest | None) -> list[Finding]:
    """A finding if the lockfile's bytes are not those pinned."""
    found = Digest.of(lock_bytes)
    if pin is None or found == pin:
        return []
    return [Finding("pin", str(found), f"the lockfile is {found}, pinned is {pin}: pin this one or use the other file")]


def verify_closed(lock: Lockfile, wanted: dict[tuple[str, str, str], str]) -> list[Finding]:
    """Findings for keys of the manifest that the lockfile lacks; ``wanted``: (device, kernel, symbol) -> key digest."""
    locked = {
        (device, entry.kernel, entry.symbol): str(entry.key_digest)
        for entry in lock.entries
        for device in entry.devices
    }
    findings = []
    for (device, kernel, symbol), key_digest in wanted.items():
        found = locked.get((device, kernel, symbol))
        if found is None:
            findings.append(Finding("missing-key", symbol, f"{kernel} for {device}: not in the lockfile, build again"))
        elif found != key_digest:
            text = f"{kernel} for {device}: locked {found}, the manifest and sources give {key_digest}, build again"
            findings.append(Finding("stale-key", symbol, text))
    return findings


def verify_stored(
    lock: Lockfile, store: ReadStore, *, deep: bool, architectures_in: ArchitecturesIn | None = None
) -> list[Finding]:
    """Findings for blobs that are absent, or (``deep``) whose bytes are not what the lockfile says.

    With ``architectures_in`` (``deep`` only) also for code that is for another architecture than the recorded target.
    """
    named = [_Named(f"pack of {name}", pack.blob, pack.target) for name, pack in lock.packs.items()]
    if deep:
        named += [_Named(f"object {entry.symbol}", entry.object, entry.target) for entry in lock.entries]
    found: dict[Descriptor, frozenset[str]] = {}

    def read(store: ReadStore, blob: Descriptor) -> None:
        content = get_blob(store, blob)
        if architectures_in is not None:
            found[blob] = architectures_in(content)

    broken = faults(store, [each.blob for each in named], read if deep else check_blob)
    return [
        *(each.lost(broken[each.blob]) for each in named if each.blob in broken),
        *(
            each.misfit(found[each.blob])
            for each in named
            if found.get(each.blob, {each.target.arch}) != {each.target.arch}
        ),
    ]


def verify_stored_lock(digest: Digest, store: ReadStore) -> list[Finding]:
    """A finding if the store has something else under the lockfile's name; that it has nothing is fine."""
    try:
        stored_lock(store, digest)
    except ObjectMissing:
        return []
    except ObjectCorrupt as error:
        return [Finding("corrupt-lock", str(digest), f"the store's copy of the lockfile: {error}", lock_name(digest))]
    return []


@dataclass(frozen=True)
class _Named:
    subject: str
    blob: Descriptor
    target: Target

    def lost(self, fault: Fault) -> Finding:
        kind = "missing-blob" if isinstance(fault, ObjectMissing) else "corrupt-blob"
        return Finding(kind, self.subject, f"{self.subject}: {fault}", blob_name(self.blob.stored_digest))

    def misfit(self, found: frozenset[str]) -> Finding:
        code = f"has code for {', '.join(sorted(found))}" if found else "has no device code"
        text = f"{self.subject}: {code}, and is recorded for {self.target.arch}: do not load it, build again"
        return Finding("wrong-architecture", self.subject, text, blob_name(self.blob.stored_digest))
