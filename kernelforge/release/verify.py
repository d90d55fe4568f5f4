"""Answers one question about a lockfile: may it be served from this store?

Everything that is wrong is found, not only the first. ``deep`` reads and hashes every byte; without it only presence
and size of the packs are asked. Trust by pin is checked here, by signature in a later release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing
from kernelforge.lockfile import Lockfile
from kernelforge.store.blobs import check_blob, get_blob
from kernelforge.store.interface import ReadStore


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: ``kind`` is a word for programs, ``text`` a sentence with what to do."""

    kind: str
    subject: str
    text: str


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


def verify_stored(lock: Lockfile, store: ReadStore, *, deep: bool) -> list[Finding]:
    """Findings for blobs that are absent, or (``deep``) whose bytes are not what the lockfile says."""
    packs = ((f"pack of {name}", pack.blob) for name, pack in lock.packs.items())
    objects = ((f"object {entry.symbol}", entry.object) for entry in lock.entries)
    findings = list(_check(packs, store, deep))
    return findings + list(_check(objects, store, deep)) if deep else findings


def _check(blobs: Iterator[tuple[str, Descriptor]], store: ReadStore, deep: bool) -> Iterator[Finding]:
    for subject, blob in blobs:
        try:
            if deep:
                get_blob(store, blob)
            else:
                check_blob(store, blob)
        except ObjectMissing as error:
            yield Finding("missing-blob", subject, f"{subject}: {error}")
        except ObjectCorrupt as error:
            yield Finding("corrupt-blob", subject, f"{subject}: {error}")
