"""From a location, as people write it, to a store: the only place that knows the forms.

file:/path, file:///path, /path, path        a folder
s3://bucket/prefix?endpoint=http://host:9000&region=eu-central-1
memory:                                       this process only
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from kernelforge.errors import UsageError
from kernelforge.store.deadline import Deadlines
from kernelforge.store.file import FileStore
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import is_name
from kernelforge.store.memory import MemoryStore
from kernelforge.store.s3 import DEFAULT_DEADLINES, S3Store

_ACCEPTED = "a folder, file:/path, s3://bucket/prefix?endpoint=URL&region=NAME, or memory:"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def open_store(
    location: str, *, endpoint_url: str | None = None, deadlines: Deadlines = DEFAULT_DEADLINES
) -> PruneStore:
    """The store at ``location``; touches nothing yet. ``UsageError`` says what is accepted.

    ``endpoint_url`` is for s3 locations that name none; ``deadlines`` bound each call to a remote store.
    """
    scheme = _SCHEME.match(location)
    if not location:
        raise _refused("an empty location", location)
    if scheme is None:
        return _folder(location)
    if scheme[1] == "memory" and location == "memory:":
        return MemoryStore()
    try:
        parts = urlsplit(location)
    except ValueError as error:
        raise _refused(str(error), location) from error
    if scheme[1] == "file":
        return _file_store(parts, location)
    if scheme[1] == "s3":
        return _s3_store(parts, location, endpoint_url, deadlines)
    raise _refused(f"no store is called {scheme[1]!r}", location)


def _folder(location: str) -> FileStore:
    try:
        return FileStore(Path(location).expanduser())
    except RuntimeError as error:  # no such user, or a user without a home
        raise _refused(str(error), location) from error


def _file_store(parts: SplitResult, location: str) -> FileStore:
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not parts.path:
        raise _refused("a file location has a path and nothing else", location)
    return FileStore(Path(unquote(parts.path)))


def _s3_store(parts: SplitResult, location: str, endpoint_url: str | None, deadlines: Deadlines) -> S3Store:
    if "@" in parts.netloc:
        raise _refused("credentials do not belong into a location", "s3://...@...")
    if not _BUCKET.fullmatch(parts.netloc) or parts.fragment:
        raise _refused(f"{parts.netloc!r} is not the name of a bucket", location)
    prefix = parts.path.strip("/")
    if prefix and not is_name(prefix):
        raise _refused(f"{prefix!r} cannot be a prefix", location)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(set(options) - {"endpoint", "region"})
    if unknown or "" in options.values():
        raise _refused(f"cannot use the options {parts.query!r}", location)
    endpoint = options.get("endpoint", endpoint_url)
    if endpoint is not None and not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?", endpoint):
        raise _refused(f"{endpoint!r} is not an http or https endpoint", location)
    return S3Store(
        parts.netloc, prefix=prefix, endpoint_url=endpoint, region=options.get("region"), deadlines=deadlines
    )


def _refused(problem: str, location: str) -> UsageError:
    return UsageError(problem, hint=f"accepted are {_ACCEPTED}", where=location)
