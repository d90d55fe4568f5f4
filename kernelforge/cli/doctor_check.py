"""What a check of ``kernelforge doctor`` comes to. Knows no check."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kernelforge.errors import KernelForgeError


class Status(enum.Enum):
    """``WARNING``: something is absent that only other uses need."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One thing that was tried: ``found`` is what came of it, ``fix`` what to do, empty where nothing is to be done.

    ``stops`` are the commands that cannot work, or not safely, until then.
    """

    name: str
    status: Status
    found: str
    fix: str = ""
    stops: tuple[str, ...] = ()

    @classmethod
    def failed(cls, name: str, error: KernelForgeError) -> Check:
        """The check that an error ended."""
        return cls(name, Status.FAILED, f"{error.where}: {error.problem}" if error.where else error.problem, error.hint)
