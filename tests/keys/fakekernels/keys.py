"""What compile keys are made of; also re-exports a name, as packages do."""

import enum
from dataclasses import dataclass
from typing import Any

__all__ = ["Order", "ScaleKey", "Swizzle", "dataclass"]

ScaleKey = Any


class Order(enum.Enum):
    ROW = 1
    COLUMN = 2


@dataclass(frozen=True)
class Swizzle:
    bits: int
    base: int
