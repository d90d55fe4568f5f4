"""``kernelforge diff``: what differs between two releases, key by key, and why. Changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from kernelforge.cli.console import print_json
from kernelforge.cli.explain_text import difference_text
from kernelforge.cli.lock_difference import compare_lockfiles
from kernelforge.cli.lockfiles import read_lockfile
from kernelforge.cli.options import json_option, opened_store, store_option
from kernelforge.digest import Digest
from kernelforge.lockfile import Lockfile
from kernelforge.release.stored_lock import stored_lock

SCHEMA = "kernelforge.diff/1"


@click.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@store_option
@click.option("--exit-code", "is_asked", is_flag=True, help="Exit with 1 if anything differs.")
@json_option
def command(old: str, new: str, store_location: str, is_asked: bool, as_json: bool) -> int:
    """Say which keys were added, removed or rebuilt from OLD to NEW, and why.

    Both are lockfiles, or sha256:... of lockfiles in the store.

    \b
    Examples:
      kernelforge diff old.lock.json registry/releases/qwen3-8b.lock.json
      kernelforge diff sha256:... qwen3-8b.lock.json --store s3://kernels/prod --exit-code
    """
    before, after = _read(old, store_location), _read(new, store_location)
    difference = compare_lockfiles(before, after)
    if as_json:
        keys = [asdict(change) for change in difference.keys]
        counts = Counter(change.change for change in difference.keys)
        document = {"schema": SCHEMA, "old": str(before.digest), "new": str(after.digest), "counts": dict(counts)}
        pack_bytes = {"old": _pack_bytes(before), "new": _pack_bytes(after)}
        print_json({**document, "pack_bytes": pack_bytes, "keys": keys, "release": difference.release})
    else:
        click.echo(difference_text(difference))
    return 1 if is_asked and (difference.keys or difference.release) else 0


def _read(name: str, store_location: str) -> Lockfile:
    if not name.startswith("sha256:"):
        return read_lockfile(Path(name))
    store, digest = opened_store(store_location), Digest.parse(name)
    return Lockfile.parse(stored_lock(store, digest), where=f"{store.location}: {digest}")


def _pack_bytes(lock: Lockfile) -> dict[str, int]:
    """Device profile -> bytes of its pack in a store."""
    return {device: pack.blob.stored_size_bytes for device, pack in lock.packs.items()}
