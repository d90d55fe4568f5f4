"""``kernelforge pull``: bring a lockfile's packs into this machine's cache, so that a later load needs no store.

Runs in a pod's image (an init container, a node's boot) with the base install only, and needs no GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kernelforge.cli.console import print_json
from kernelforge.cli.options import json_option, opened_reader, store_option
from kernelforge.cli.pod_lockfile import (
    WantedLockfile,
    channel_option,
    check_vouched_for,
    minimum_serial_option,
    pod_lockfile_argument,
    trusted_keys_option,
)
from kernelforge.cli.pod_options import cache_option, device_option, only_for, pack_cache, pin_option
from kernelforge.errors import StoreFull, UntrustedLockfile
from kernelforge.loader.cache import PackCache
from kernelforge.loader.pack import FoundPack, Places, find_pack
from kernelforge.loader.stats import StepClock
from kernelforge.loader.trust import parse_trusted
from kernelforge.lockfile import LockedPack
from kernelforge.release.verify import verify_pin

SCHEMA = "kernelforge.pull/1"


@click.command()
@pod_lockfile_argument
@channel_option
@store_option
@pin_option
@trusted_keys_option
@minimum_serial_option
@cache_option
@json_option
@click.option("--trust-file", is_flag=True, help="Trust LOCKFILE as it is: whoever can write it decides what pods run.")
@device_option
def command(
    lockfile: str | None,
    channel: str | None,
    store_location: str,
    pin: str | None,
    key_files: tuple[Path, ...],
    minimum_serial: int,
    cache_folder: Path | None,
    as_json: bool,
    trust_file: bool,
    devices: tuple[str, ...],
) -> int:
    """Fetch the packs of LOCKFILE (a file, a bundle, or sha256:... in the store) into the local cache.

    Each is checked against the lockfile. A later load then needs no store for them.

    \b
    Examples:
      kernelforge pull qwen3-8b.lock.json --pin sha256:... --store s3://kernels/prod --device h200-sxm
      kernelforge pull qwen3-8b.lock.json --trust-file --cache /var/cache/kernelforge
      kernelforge pull --channel qwen3-8b/prod --key release.key.pub --store s3://kernels/prod --device h200-sxm
    """
    wanted = WantedLockfile.of(lockfile, channel, key_files, pin, minimum_serial)
    check_vouched_for(wanted, trust_file)
    cache = pack_cache(cache_folder)
    store = opened_reader(store_location)
    trusted = wanted.read(lambda: store, cache_folder, is_read_only=False)
    for finding in verify_pin(trusted.data, wanted.pin):
        hint = "deploy the pinned lockfile, or pin the new one after reviewing it"
        raise UntrustedLockfile(finding.text, hint=hint, where=trusted.where, reason="unpinned")
    lock = parse_trusted(trusted)
    packs = trusted.bundle or store
    places = Places(path=None, cache=cache, cache_setting="", open_store=lambda: packs)
    pulled = {device: _pull(pack, places, cache) for device, pack in only_for(lock, devices).packs.items()}
    document = {
        "schema": SCHEMA,
        "lockfile": {"path": trusted.where, "digest": str(trusted.digest)},
        "packs": {device: _pack_json(found) for device, found in pulled.items()},
    }
    if as_json:
        print_json(document)
        return 0
    for device, found in pulled.items():
        how = "was there" if found.source == "cache" else "fetched"
        click.echo(f"{device}: {how}, {len(found.data):,} bytes, {found.kept_at}")
    return 0


def _pull(pack: LockedPack, places: Places, cache: PackCache) -> FoundPack:
    """A pack that is in the cache now; a load may do without a file, a pull that leaves none has failed."""
    found = find_pack(pack.blob, places, StepClock())
    if found.kept_at is None:
        folder = cache.path_of(pack.blob.content_digest).parent
        raise StoreFull("the cache cannot be written", hint="give another --cache", where=str(folder))
    return found


def _pack_json(found: FoundPack) -> dict[str, Any]:
    return {"source": found.source, "size_bytes": len(found.data), "path": str(found.kept_at)}
