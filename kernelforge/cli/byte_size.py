"""Sizes as people give them to options: ``50MiB``, ``200 GB``, ``1073741824``."""

from __future__ import annotations

import re

import click

_UNITS = {"": 1, "b": 1}
_UNITS.update({f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)})
_UNITS.update({f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)})
_SIZE = re.compile(r"(\d{1,15})\s*([A-Za-z]*)")


def byte_size(text: str) -> int:
    """The number of bytes; what click reports otherwise says what is accepted."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2].lower() not in _UNITS:
        raise click.BadParameter(f"{text!r} is no size such as 50GiB, 200MB or 1073741824")
    return int(found[1]) * _UNITS[found[2].lower()]
