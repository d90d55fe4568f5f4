"""``verify --deep``: reads and hashes all that a lockfile names in a store; what is damaged goes into quarantine."""

from __future__ import annotations

from datetime import datetime, timezone

from kernelforge.cli.console import say
from kernelforge.digest import Digest
from kernelforge.errors import InputError, ToolchainError
from kernelforge.lockfile import Lockfile
from kernelforge.release.quarantine import quarantined
from kernelforge.release.verify import ArchitecturesIn, Finding, verify_stored, verify_stored_lock
from kernelforge.store.interface import PruneStore, ReadStore


def check_deeply(lock: Lockfile, digest: Digest, store: PruneStore, bundle: ReadStore | None) -> list[Finding]:
    """Findings of the store, or of the bundle that the lockfile came in, which is never changed."""
    findings = verify_stored(lock, bundle or store, deep=True, architectures_in=_reader_of_architectures())
    if bundle is not None:
        return findings
    findings += verify_stored_lock(digest, store)
    return quarantined(findings, store, lock=digest, now=datetime.now(timezone.utc)) if findings else []


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
