"""Reads a JSON object whose fields know their line: strict JSON, no key twice, no NaN.

The standard parser gives no positions, so a second pass over the text finds the lines of its keys.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kernelforge.manifest.problems import Place, Problems
from kernelforge.manifest.text_file import read_text

# Configs of quantised models list hundreds of modules and reach about 100 KiB.
SIZE_LIMIT_BYTES = 4 * 1024 * 1024
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)


@dataclass(frozen=True)
class JsonObject:
    """The fields of one JSON object; ``place_of`` tells where a field stands."""

    file: str
    text: str
    fields: dict[str, Any]

    def place_of(self, *path: str) -> Place:
        """The line of a field, given by the keys that lead to it; line 1 where the object lacks it."""
        return Place(self.file, self._lines.get(path, 1))

    @cached_property
    def _lines(self) -> dict[tuple[str | int, ...], int]:
        return dict(_key_lines(self.text))


def read_json_object(path: Path, problems: Problems, *, named_at: Place) -> JsonObject | None:
    """The object in ``path``, or None after adding problems."""
    text = read_text(path, problems, limit_bytes=SIZE_LIMIT_BYTES, named_at=named_at)
    if text is None:
        return None
    file, repeated = str(path), False

    def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        fields = dict(pairs)
        repeated = repeated or len(fields) < len(pairs)
        return fields

    try:
        value = json.loads(text, object_pairs_hook=without_repetition, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        problems.add(Place(file, error.lineno), f"not valid JSON: {error.msg}", hint="is this the model's config.json?")
        return None
    except (ValueError, RecursionError) as error:  # NaN, an integer of thousands of digits, nesting without end
        problems.add(Place(file, 1), f"not valid JSON: {error}", hint="is this the model's config.json?")
        return None
    if not isinstance(value, dict):
        problems.add(Place(file, 1), "not a JSON object", hint="a config.json starts with { and ends with }")
        return None
    if repeated:
        _add_repeated_keys(text, file, problems)
        return None
    return JsonObject(file, text, value)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _add_repeated_keys(text: str, file: str, problems: Problems) -> None:
    seen: Counter[tuple[str | int, ...]] = Counter()
    for path, line in _key_lines(text):
        seen[path] += 1
        if seen[path] > 1:
            problems.add(Place(file, line), f"{path[-1]} is given twice", hint="keep one of them")


def _key_lines(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Each key of a valid JSON text as the path that leads to it (keys, and positions in lists), and its line."""
    path: list[str | int] = []
    line, position, last_string = 1, 0, ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        line += text.count("\n", position, match.start())
        position = match.start()
        if token in ("{", "["):
            path.append("" if token == "{" else 0)
        elif token in ("}", "]"):
            path.pop()
        elif token == "," and isinstance(path[-1], int):
            path[-1] += 1
        elif token == ":":
            path[-1] = json.loads(last_string)
            yield tuple(path), line
        else:
            last_string = token
