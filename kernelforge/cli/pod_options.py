"""Options of the commands that run in pods: which lockfile is meant, and where packs are kept on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kernelforge.errors import InputError, UsageError
from kernelforge.loader.cache import PackCache
from kernelforge.loader.mounts import Mount
from kernelforge.loader.options import Options
from kernelforge.loader.pack import Places
from kernelforge.lockfile import Lockfile

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

pin_option: Decorator = click.option(
    "--pin",
    metavar="DIGEST",
    default=None,
    envvar="KERNELFORGE_PIN",
    help="Trust exactly the lockfile with this digest (sha256:...).",
)

cache_option: Decorator = click.option(
    "--cache",
    "cache_folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    allow_from_autoenv=False,  # KERNELFORGE_CACHE is the loader's own variable, with an order of its own
    help="Folder of packs.  [default: KERNELFORGE_CACHE, XDG_CACHE_HOME/kernelforge or ~/.cache/kernelforge]",
)


device_option: Decorator = click.option(
    "--device",
    "devices",
    metavar="PROFILE",
    multiple=True,
    envvar="KERNELFORGE_DEVICE",
    help="Only the pack of this device profile; may be given several times.  [default: all]",
)


def only_for(lock: Lockfile, devices: tuple[str, ...]) -> Lockfile:
    """Packs and entries of these device profiles, or of all; ``InputError`` names those that the lockfile has."""
    unknown = sorted(set(devices) - set(lock.packs))
    if unknown:
        known = ", ".join(sorted(lock.packs))
        raise InputError(f"the lockfile has no pack for {', '.join(unknown)}", hint=f"it has: {known}")
    packs = {device: lock.packs[device] for device in sorted(devices or lock.packs)}
    return replace(lock, packs=packs, entries=tuple(entry for entry in lock.entries if packs.keys() & entry.devices))


def pod_places(cache_folder: Path | None) -> Places:
    """Where a load without a store looks in this environment; ``UsageError`` when it has no place to look."""
    options = Options.from_environment(os.environ, cache=cache_folder)
    if options.cache_folder is None and not options.mounts:
        raise _no_folder()
    return Places(
        path=None,
        cache=None if options.cache_folder is None else PackCache(options.cache_folder),
        cache_setting=options.cache_setting,
        open_store=None,
        mounts=tuple(map(Mount, options.mounts)),
    )


def pack_cache(cache_folder: Path | None) -> PackCache:
    """The cache that a load in this environment would use; ``UsageError`` when it would use none."""
    folder = Options.from_environment(os.environ, cache=cache_folder).cache_folder
    if folder is None:
        raise _no_folder()
    return PackCache(folder)


def _no_folder() -> UsageError:
    return UsageError("no cache folder is known", hint="give --cache FOLDER, or set KERNELFORGE_CACHE or HOME")
