"""All problems of a manifest and of the files that it names, collected so that a human sees them at once.

Readers of this room add problems and carry on with what is left; only ``load_manifest`` and ``load_profile`` raise.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kernelforge.errors import ManifestError, Problem

_LENGTH_LIMIT = 400


class Place(NamedTuple):
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Problems:
    """What is wrong so far; ``file`` is the one that was asked for, whose problems are listed first."""

    file: str
    _found: dict[Problem, None] = field(default_factory=dict)

    def add(self, place: Place, what: str, *, hint: str) -> None:
        """Note one problem; the same one seen twice (two targets with one profile) counts once."""
        self._found[Problem(place.file, place.line, _on_one_line(what), _on_one_line(hint))] = None

    def __len__(self) -> int:
        return len(self._found)

    def error(self) -> ManifestError:
        """The error that carries them, in the order of files and lines."""
        return ManifestError(sorted(self._found, key=lambda p: (p.file != self.file, p.file, p.line)))


def _on_one_line(text: str) -> str:
    """Text from a file goes to terminals and CI logs: no control characters, and no megabyte of it."""
    shown = text if len(text) <= _LENGTH_LIMIT else f"{text[:_LENGTH_LIMIT]}..."
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in shown)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A hint: the nearest of ``known`` if one is near, else all of them."""
    names = sorted(known)
    nearest = difflib.get_close_matches(str(word).lower(), names, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"one of: {', '.join(names)}"
