"""Keys that pods had to compile because their lockfile lacks them (``kernelforge.misses/1``): what the next build adds.

The loader writes such a document, ``build --misses`` reads it back. Values and format only: whether a kernel still
exists, and whether its keys still have these fields, is for ``keys`` to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernelforge import json_values
from kernelforge.digest import Digest
from kernelforge.errors import InputError
from kernelforge.target import Target

SCHEMA = "kernelforge.misses/1"
# What a pod's documents are called, behind a part of the name that no two processes share.
FILE_SUFFIX = ".misses.json"


@dataclass(frozen=True)
class MissedKey:
    """One key that was asked for and that the lockfile lacks for this device.

    ``compile_key`` is its JSON form, ``device`` the device profile. ``count`` is in how many processes it was missed,
    ``seconds`` the wall time that they waited for it, in all; a compile that failed counts too.
    """

    kernel: str
    compile_key: Mapping[str, Any]
    target: Target
    device: str
    count: int
    seconds: float

    def __str__(self) -> str:
        fields = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(self.compile_key.items()))
        return f"{self.kernel} with {fields} for {self.device} ({self.target})"


@dataclass(frozen=True)
class Misses:
    """What one process missed with the lockfile of this digest. ``parse`` is the inverse of ``to_bytes``."""

    lockfile: Digest
    keys: tuple[MissedKey, ...]

    def to_bytes(self) -> bytes:
        """The document, its keys sorted."""
        document = {
            "schema": SCHEMA,
            "lockfile": str(self.lockfile),
            "misses": [_json(key) for key in sorted(self.keys, key=_identity)],
        }
        return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes, *, where: str) -> Misses:
        """Read exactly what ``to_bytes`` writes; ``InputError`` at ``where`` for anything else."""
        try:
            document = json_values.members(json_values.parse(data), _DOCUMENT)
            if document["schema"] != SCHEMA:
                raise ValueError(f"its schema is {document['schema']!r}, this version reads {SCHEMA}")
        except ValueError as error:
            hint = "take it from the folder that misses= names in the pod; do not edit it by hand"
            raise InputError(f"not a misses document: {error}", hint=hint, where=where) from error
        return cls(document["lockfile"], document["misses"])


def merged(documents: Iterable[Misses]) -> tuple[MissedKey, ...]:
    """The keys of several documents, each once with what it cost everywhere, in an order that never changes."""
    found: dict[tuple[str, ...], MissedKey] = {}
    for document in documents:
        for key in document.keys:
            known = found.get(_identity(key))
            found[_identity(key)] = (
                replace(known, count=known.count + key.count, seconds=known.seconds + key.seconds) if known else key
            )
    return tuple(found[identity] for identity in sorted(found))


def _identity(key: MissedKey) -> tuple[str, ...]:
    # As text, in which 1, 1.0 and true are three values.
    return key.kernel, json.dumps(key.compile_key, sort_keys=True), str(key.target), key.device


def _json(key: MissedKey) -> dict[str, Any]:
    return {
        "kernel": key.kernel,
        "compile_key": dict(key.compile_key),
        "target": str(key.target),
        "device": key.device,
        "count": key.count,
        "seconds": round(key.seconds, 3),
    }


def _count(value: Any) -> int:
    count = json_values.integer(value)
    if count < 1:
        raise ValueError(f"{count} times is no miss")
    return count


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or value < 0:
        raise ValueError(f"{value!r} is no number of seconds")
    return float(value)


_KEY = {
    "kernel": json_values.text,
    "compile_key": json_values.mapping,
    "target": lambda value: Target.parse(json_values.text(value)),
    "device": json_values.text,
    "count": _count,
    "seconds": _seconds,
}
_DOCUMENT = {
    "schema": json_values.text,
    "lockfile": lambda value: Digest.parse(json_values.text(value)),
    "misses": json_values.items(lambda value: MissedKey(**json_values.members(value, _KEY))),
}
