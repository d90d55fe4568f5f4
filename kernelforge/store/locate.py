"""From a location, as people write it, to a store: the only place that knows the forms.

file:/path, file:///path, /path, path        a folder
s3://bucket/prefix?endpoint=http://host:9000&region=eu-central-1&addressing=path|virtual&anonymous=true
memory:                                       this process only

Behind a bucket may stand ``mirror=LOCATION``, more than once: what is nearer to those who read. Whoever writes, lists
or asks what the store holds means the bucket. A ``&`` in the location of a mirror is written ``%26``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from kernelforge.errors import StoreError, UsageError
from kernelforge.store.deadline import Deadlines
from kernelforge.store.file import FileStore
from kernelforge.store.interface import PruneStore, ReadStore
from kernelforge.store.layout import is_name
from kernelforge.store.memory import MemoryStore
from kernelforge.store.read_through import ReadThroughStore
from kernelforge.store.retry import RetryingStore
from kernelforge.store.s3 import S3Store
from kernelforge.store.s3_connection import S3Options
from kernelforge.store.single_flight import SingleFlightStore

DEFAULT_DEADLINES = Deadlines()
_ACCEPTED = (
    "a folder, file:/path, memory:, or s3://bucket/prefix?OPTIONS with endpoint=URL, region=NAME, "
    "addressing=path|virtual, anonymous=true, mirror=LOCATION"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
#: What of a call's time a mirror gets, so that enough is left for the store behind it.
_SHARE_OF_A_MIRROR = 0.25


def open_store(
    location: str, *, endpoint_url: str | None = None, deadlines: Deadlines = DEFAULT_DEADLINES
) -> PruneStore:
    """The store at ``location``, without its mirrors; touches nothing yet. ``UsageError`` says what is accepted.

    ``endpoint_url`` is for s3 locations that name none; ``deadlines`` bound each call to a remote store.
    """
    return _opened(location, endpoint_url, deadlines)[0]


def open_reader(
    location: str,
    *,
    endpoint_url: str | None = None,
    deadlines: Deadlines = DEFAULT_DEADLINES,
    on_trouble: Callable[[StoreError], None] = lambda error: None,
) -> ReadStore:
    """The store at ``location`` behind its mirrors, for pods; equal reads at once share one request.

    A mirror gets a quarter of ``deadlines.call_s``, its errors go to ``on_trouble``. Else as ``open_store``.
    """
    origin, mirrors = _opened(location, endpoint_url, deadlines)
    return SingleFlightStore(ReadThroughStore(mirrors, origin, on_trouble=on_trouble) if mirrors else origin)


def _opened(location: str, endpoint_url: str | None, deadlines: Deadlines) -> tuple[PruneStore, list[PruneStore]]:
    """The store and its mirrors."""
    scheme = _SCHEME.match(location)
    if not location:
        raise _refused("an empty location", location)
    if scheme is None:
        return _folder(location), []
    if scheme[1] == "memory" and location == "memory:":
        return MemoryStore(), []
    try:
        parts = urlsplit(location)
    except ValueError as error:
        raise _refused(str(error), location) from error
    if scheme[1] == "file":
        return _file_store(parts, location), []
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


def _s3_store(
    parts: SplitResult, location: str, endpoint_url: str | None, deadlines: Deadlines
) -> tuple[PruneStore, list[PruneStore]]:
    if "@" in parts.netloc:
        raise _refused("credentials do not belong into a location", location)
    if not _BUCKET.fullmatch(parts.netloc) or parts.fragment:
        raise _refused(f"{parts.netloc!r} is not the name of a bucket", location)
    prefix = parts.path.strip("/")
    if prefix and not is_name(prefix):
        raise _refused(f"{prefix!r} cannot be a prefix", location)
    given = parse_qsl(parts.query, keep_blank_values=True)
    mirrors = [value for name, value in given if name == "mirror"]
    named = {name: value for name, value in given if name != "mirror"}
    try:
        options = S3Options.parse({"endpoint": endpoint_url, **named} if endpoint_url else named)
    except ValueError as error:
        raise _refused(str(error), location) from error
    store = S3Store(parts.netloc, prefix=prefix, options=options, deadlines=deadlines)
    return RetryingStore(store, call_s=deadlines.call_s), [_mirror(mirror, deadlines) for mirror in mirrors]


def _mirror(location: str, deadlines: Deadlines) -> PruneStore:
    patience = replace(deadlines, call_s=_SHARE_OF_A_MIRROR * deadlines.call_s)
    store, behind = _opened(location, None, patience)
    if behind:
        raise _refused("a mirror has no mirrors: name them one after the other, the nearest first", location)
    return store


def _refused(problem: str, location: str) -> UsageError:
    hidden = re.sub(r"//[^/]*@", "//...@", location)  # locations end up in logs
    return UsageError(problem, hint=f"accepted are {_ACCEPTED}", where=hidden)
