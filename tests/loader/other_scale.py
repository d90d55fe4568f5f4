"""A kernel class that came after the lockfile was built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelforge.contract import JitKernel, kernel_launcher


class Late(JitKernel["Late.CompileKey"]):
    """Returns a number as its pack gives it."""

    @dataclass(frozen=True)
    class CompileKey:
        head_dim: int
        dtype: str

    def dispatch(self, *, dtype: str) -> CompileKey:
        return self.CompileKey(head_dim=96, dtype=dtype)

    @kernel_launcher
    def __call__(self, *, dtype: str, number: int) -> tuple[Any, ...]:
        return self.dispatch(dtype=dtype), (number,)
