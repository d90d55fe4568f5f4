"""Options of the commands that make lockfiles. Apart from the others' options: pods do not import what this imports."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from kernelforge.plan import Shard


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--fail-on`` and ``--max-registers``: what a release may not have."""
    spills = click.option(
        "--fail-on",
        type=click.Choice(["spills"]),
        multiple=True,
        help="Release nothing in which a kernel spills registers.",
    )
    registers = click.option(
        "--max-registers",
        type=click.IntRange(1, 255),
        default=None,
        help="Release nothing in which a thread takes more registers.",
    )
    return spills(registers(command))


class ShardType(click.ParamType[Shard]):
    """``2/8``: the second of eight parts."""

    name = "I/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shard:
        if isinstance(value, Shard):
            return value
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", value)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            self.fail(f"{value!r} is no part such as 1/8 or 8/8", param, ctx)
        return Shard(int(found[1]), int(found[2]))
