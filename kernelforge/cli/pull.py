"""``kernelforge pull``: bring a lockfile's packs into this machine's cache, so that a later load needs no store.

Runs in a pod's image (an init container, a node's boot) with the base install only, and needs no GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kernelforge.cli.console import print_json
from kernelforge.cli.options import json_option, lockfile_argument, opened_store, store_option
from kernelforge.cli.pod_options import cache_option, device_option, only_for, pack_cache, pin_option
from kernelforge.errors import StoreFull, UsageError
from kernelforge.loader.cache import PackCache
from kernelforge.loader.pack import FoundPack, Places, find_pack
from kernelforge.loader.stats import StepClock
from kernelforge.loader.trust import LocalFile, PinnedDigest, Trust, parse_trusted, read_trusted
from kernelforge.lockfile import LockedPack

SCHEMA = "kernelforge.pull/1"


@click.command()
@lockfile_argument
@store_option
@pin_option
@cache_option
@json_option
@click.option("--trust-file", is_flag=True, help="Trust LOCKFILE as it is: whoever can write it decides what pods run.")
@device_option
def command(
    lockfile: Path,
    store_location: str,
    pin: str | None,
    cache_folder: Path | None,
    as_json: bool,
    trust_file: bool,
    devices: tuple[str, ...],
) -> int:
    """Fetch the packs of LOCKFILE into the local cache.

    Each is checked against the lockfile. A later load then needs no store.

    \b
    Examples:
      kernelforge pull qwen3-8b.lock.json --pin sha256:... --store s3://kernels/prod --device h200-sxm
      kernelforge pull qwen3-8b.lock.json --trust-file --cache /var/cache/kernelforge
    """
    trusted = read_trusted(lockfile, _trust(pin, trust_file))
    lock = parse_trusted(trusted)
    cache = pack_cache(cache_folder)
    store = opened_store(store_location)
    places = Places(path=None, cache=cache, cache_setting="", open_store=lambda: store)
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


def _trust(pin: str | None, trust_file: bool) -> Trust:
    if pin is not None and trust_file:
        raise UsageError("--pin and --trust-file say two different things", hint="give one of them; --pin is stronger")
    if pin is not None:
        return PinnedDigest(pin)
    if trust_file:
        return LocalFile()
    raise UsageError(
        "nothing vouches for this lockfile, and it decides which native code pods run",
        hint="give --pin sha256:... ('kernelforge verify' prints it), or --trust-file if you vouch for the file",
    )


def _pull(pack: LockedPack, places: Places, cache: PackCache) -> FoundPack:
    """A pack that is in the cache now; a load may do without a file, a pull that leaves none has failed."""
    found = find_pack(pack.blob, places, StepClock())
    if found.kept_at is None:
        folder = cache.path_of(pack.blob.content_digest).parent
        raise StoreFull("the cache cannot be written", hint="give another --cache", where=str(folder))
    return found


def _pack_json(found: FoundPack) -> dict[str, Any]:
    return {"source": found.source, "size_bytes": len(found.data), "path": str(found.kept_at)}
