"""What a compile function is asked for and answers, when a pod compiles a key that its lockfile lacks.

The loader asks in a process of its own, a builder answers; neither may import the other, so the two values are a leaf.
Plain JSON on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kernelforge import json_values
from kernelforge.errors import InputError
from kernelforge.target import Target


@dataclass(frozen=True)
class JitRequest:
    """Compile one key into a pack with one callable, ``symbol``.

    ``compile_key`` is its JSON form. Whatever is written belongs into ``folder``, an empty folder that the asker
    removes. The answer is due within ``limit_s`` seconds of wall time.
    """

    kernel: str
    compile_key: Mapping[str, Any]
    symbol: str
    target: Target
    folder: str
    limit_s: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``from_json`` is its inverse."""
        return {**asdict(self), "compile_key": dict(self.compile_key), "target": str(self.target)}

    @classmethod
    def from_json(cls, value: object) -> JitRequest:
        """Inverse of ``to_json``; ``InputError`` for anything else."""
        return cls(**_members(value, _REQUEST, "request to compile a key"))


@dataclass(frozen=True)
class JitAnswer:
    """The pack: the path of a shared library, who linked it, and what a process that loads it must provide."""

    pack: str
    linker: str
    needed: tuple[str, ...]
    undefined: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``from_json`` is its inverse."""
        return {**asdict(self), "needed": list(self.needed), "undefined": list(self.undefined)}

    @classmethod
    def from_json(cls, value: object) -> JitAnswer:
        """Inverse of ``to_json``; ``InputError`` for anything else."""
        return cls(**_members(value, _ANSWER, "answer of a compile function"))


def _members(value: object, readers: Mapping[str, Any], what: str) -> dict[str, Any]:
    try:
        return json_values.members(value, readers)
    except ValueError as error:
        raise InputError(f"not the {what}: {error}", hint="use what to_json returned") from error


def _seconds(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


_TEXTS = json_values.items(json_values.text)
_REQUEST = {
    "kernel": json_values.text,
    "compile_key": json_values.mapping,
    "symbol": json_values.text,
    "target": lambda value: Target.parse(json_values.text(value)),
    "folder": json_values.text,
    "limit_s": _seconds,
}
_ANSWER = {"pack": json_values.text, "linker": json_values.text, "needed": _TEXTS, "undefined": _TEXTS}
