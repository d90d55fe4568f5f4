"""Records of what this node compiled itself, in the cache folder beside the packs that they describe.

A record is found by the digest of everything that decided the result, so that nothing is ever served to another version
of the kernel, the compiler or anything else that is installed. It names the pack's sha256; the pack is looked up and
checked like every other.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelforge import json_values
from kernelforge.contract import CONTRACT_VERSION
from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.encoding import labelled
from kernelforge.jit_request import JitAnswer, JitRequest
from kernelforge.loader.cache import PackCache
from kernelforge.loader.single_flight import fetch_turn
from kernelforge.loader.whole_file import replace_file
from kernelforge.lockfile import LockedPack
from kernelforge.target import Target

_log = logging.getLogger(__name__)

SCHEMA = "kernelforge.jit/1"
_LIMIT_BYTES = 1 << 20
_LIBRARY = re.compile(r"lib[A-Za-z0-9_+-]+\.so(\.[0-9]+)*")


def identity_of(request: JitRequest, function: str) -> Digest:
    """Digest of all that decides what ``function`` makes of a request.

    Kernel, compile key, target, the kernel's device code, the function's name and the version of every distribution
    that is installed: what a compile function depends on is not for the loader to know, and a pod's image does not
    change. Device facts reach a kernel through its key alone. Raises ``SourceError`` for code that cannot be read.
    """
    from kernelforge.fingerprint import device_fingerprint

    parts = {
        "schema": SCHEMA,
        "contract": CONTRACT_VERSION,
        "kernel": request.kernel,
        "symbol": request.symbol,
        "target": str(request.target),
        "source": str(device_fingerprint(request.kernel).digest),
        "function": function,
        "installed": tuple(sorted({f"{one.name}=={one.version}" for one in importlib.metadata.distributions()})),
    }
    return Digest.of(labelled(parts, where=request.kernel))


def described(blob: Descriptor, answer: JitAnswer, target: Target, identity: Digest) -> LockedPack:
    """A pack that was compiled here, in the words of a lockfile, so that it is checked like one."""
    return LockedPack(target, identity, blob, answer.linker, answer.needed, answer.undefined)


class JitCache:
    """Records under ``<cache>/packs``. Where the folder cannot be written nothing is kept, with a warning."""

    def __init__(self, cache: PackCache | None) -> None:
        self._cache = cache

    def read(self, identity: Digest, target: Target) -> LockedPack | None:
        """What was recorded; None where there is no record, or one that cannot be used, which is logged."""
        if self._cache is None:
            return None
        path = self._path(self._cache, identity)
        try:
            self._cache.prepare()
            with open(path, "rb") as file:
                return _parse(file.read(_LIMIT_BYTES), target, identity)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.warning("a kernel is compiled although it may have been before: %s: %s", path, error)
            return None

    def write(self, pack: LockedPack) -> None:
        """Publish the record of a pack that is in the cache."""
        if self._cache is None:
            return
        document = {
            "schema": SCHEMA,
            "blob": pack.blob.to_json(),
            "linker": pack.linker,
            "needed": list(pack.needed),
            "undefined": list(pack.undefined),
        }
        try:
            self._cache.prepare()
            data = json.dumps(document, indent=1, sort_keys=True).encode()
            replace_file(self._path(self._cache, pack.recipe), data)
        except OSError as error:
            _log.warning("a compiled kernel is not kept, the next process compiles it again: %s", error)

    @contextlib.contextmanager
    def turn(self, identity: Digest, *, wait_s: float) -> Iterator[None]:
        """Let one process of the node at a time into the block; after ``wait_s``, or where there are no locks, all."""
        if self._cache is None:
            yield
            return
        with contextlib.suppress(OSError):  # no folder, no lock: said when the record is written
            self._cache.prepare()
        with fetch_turn(self._cache.lock_of(identity), wait_s=wait_s):
            yield

    @staticmethod
    def _path(cache: PackCache, identity: Digest) -> Path:
        return cache.path_of(identity).with_suffix(".jit.json")


def _parse(data: bytes, target: Target, identity: Digest) -> LockedPack:
    document = json_values.members(json_values.parse(data), _RECORD)
    if document["schema"] != SCHEMA:
        raise ValueError(f"its schema is {document['schema']!r}, this version reads {SCHEMA}")
    # These are opened by name before the pack: a path would be somebody else's library.
    if not all(_LIBRARY.fullmatch(name) for name in document["needed"]):
        raise ValueError(f"{document['needed']!r} are not names of libraries")
    answer = JitAnswer("", document["linker"], document["needed"], document["undefined"])
    return described(document["blob"], answer, target, identity)


_TEXTS = json_values.items(json_values.text)
_RECORD: Mapping[str, Any] = {
    "schema": json_values.text,
    "blob": Descriptor.from_json,
    "linker": json_values.text,
    "needed": _TEXTS,
    "undefined": _TEXTS,
}
