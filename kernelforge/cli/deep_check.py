"""``verify --deep``: reads and hashes all that a lockfile names in a store; what is damaged goes into quarantine."""

from __future__ import annotations

from datetime import datetime, timezone

from kernelforge.cli.console import say
from kernelforge.cli.healed import forget_healed
from kernelforge.digest import Digest
from kernelforge.errors import InputError, StoreError, ToolchainError
from kernelforge.lockfile import Lockfile
from kernelforge.release.quarantine import DAMAGE, quarantined
from kernelforge.release.verify import ArchitecturesIn, Finding, verify_stored, verify_stored_lock
from kernelforge.store.damage import read_damage
from kernelforge.store.interface import PruneStore, ReadStore
from kernelforge.store.layout import blob_name


def check_deeply(lock: Lockfile, digest: Digest, store: PruneStore, bundle: ReadStore | None) -> list[Finding]:
    """Findings of the store, or of the bundle that the lockfile came in, which is never changed."""
    findings = verify_stored(lock, bundle or store, deep=True, architectures_in=_reader_of_architectures())
    if bundle is not None:
        return findings
    findings += verify_stored_lock(digest, store)
    if findings:
        findings = quarantined(findings, store, lock=digest, now=datetime.now(timezone.utc))
    _forget_whole(lock, findings, store)
    return findings


def _forget_whole(lock: Lockfile, findings: list[Finding], store: PruneStore) -> None:
    """Take off the list of damage what is there again: whoever made it may have had no permission to."""
    try:
        listed = read_damage(store).keys()
    except StoreError as error:
        say(f"the store's list of damage was not looked at: {error}")
        return
    found = {finding.object for finding in findings if finding.kind in DAMAGE}
    named = {blob.stored_digest for blob in lock.blobs}
    forget_healed(store, {blob for blob in named & listed if blob_name(blob) not in found})


def _reader_of_architectures() -> ArchitecturesIn | None:
    """None, and a word about it, where this machine cannot read device code: pods have the base install."""
    from kernelforge.builder.cubin import read_cubin
    from kernelforge.cli.elf_file import read_elf

    def architectures_in(content: bytes) -> frozenset[str]:
        try:
            return frozenset(read_cubin(image).arch for image in read_elf(content, where="").images)
        except (InputError, ToolchainError):
            return frozenset()

    try:
        import elftools  # noqa: F401
    except ImportError:
        say("not checked: what architecture the code is for (pip install 'kernelforge[build]')")
        return None
    return architectures_in
