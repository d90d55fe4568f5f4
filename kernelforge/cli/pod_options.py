"""Options of the commands that run in pods: which lockfile is meant, and where packs are kept on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kernelforge.errors import UsageError
from kernelforge.loader.cache import PackCache
from kernelforge.loader.options import Options

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


def pack_cache(cache_folder: Path | None) -> PackCache:
    """The cache that a load in this environment would use; ``UsageError`` when it would use none."""
    folder = Options.from_environment(os.environ, cache=cache_folder).cache_folder
    if folder is None:
        raise UsageError("no cache folder is known", hint="give --cache FOLDER, or set KERNELFORGE_CACHE or HOME")
    return PackCache(folder)
