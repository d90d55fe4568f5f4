"""A base class inside the project, between the kernel and the contract."""

from __future__ import annotations

from typing import Any, TypeVar

from kernelforge.contract import JitKernel

KeyT = TypeVar("KeyT")
ALIGNMENT = 16


class ScaleBase(JitKernel[KeyT]):
    def __init_subclass__(cls, layout: str = "row", **options: Any) -> None:
        super().__init_subclass__(**options)

    def fake_row(self, length: int) -> Any:
        return ("row", length, self.alignment())

    def alignment(self) -> int:
        return ALIGNMENT

    def never_called(self) -> int:
        return 0
