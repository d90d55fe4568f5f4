"""Options that several commands share, so that each has one name, one variable and one meaning."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kernelforge.store.interface import PruneStore, ReadStore
from kernelforge.store.locate import open_reader, open_store

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

DEFAULT_STORE = "file:.kernelforge/store"

manifest_argument: Decorator = click.argument("manifest", type=click.Path(path_type=Path))

lockfile_argument: Decorator = click.argument("lockfile", type=click.Path(path_type=Path))

json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")

store_option: Decorator = click.option(
    "--store",
    "store_location",
    default=DEFAULT_STORE,
    show_default=True,
    envvar="KERNELFORGE_STORE",
    help="Where objects are: a folder, file:/path, or s3://bucket/prefix?endpoint=URL&region=NAME (also "
    "addressing=path|virtual, anonymous=true and, for those who read in pods, mirror=LOCATION).",
)

domain_option: Decorator = click.option(
    "--domain",
    default="dev",
    show_default=True,
    envvar="KERNELFORGE_DOMAIN",
    help="Which build records to use; a release build never reads those of another domain.",
)

lock_option: Decorator = click.option(
    "--lock",
    "lock_path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    envvar="KERNELFORGE_LOCK",
    help="The lockfile.  [default: registry/releases/<name>.lock.json]",
)

misses_option: Decorator = click.option(
    "--misses",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Add the keys that pods had to compile, from a document that they wrote. May be given several times. A build "
    "without it drops them again, unless the manifest asks for them by then.",
)


def opened_store(location: str) -> PruneStore:
    """The store at ``location``; a relative folder is under the working folder."""
    return open_store(_absolute(location), endpoint_url=_endpoint_url())


def opened_reader(location: str) -> ReadStore:
    """The store at ``location`` behind its mirrors, as pods read it."""
    return open_reader(_absolute(location), endpoint_url=_endpoint_url())


def _absolute(location: str) -> str:
    scheme, _, path = location.partition(":")
    return Path(path).absolute().as_uri() if scheme == "file" and path and not path.startswith("/") else location


def _endpoint_url() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def lock_path_for(name: str, given: Path | None) -> Path:
    """Where the lockfile of a deployment is."""
    return given or Path("registry", "releases", f"{name}.lock.json")
