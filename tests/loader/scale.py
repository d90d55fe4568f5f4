"""Two kernel classes for the loader's tests: nothing compiles them, the fake packs have their symbols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelforge.contract import JitKernel, kernel_launcher


class Scale(JitKernel["Scale.CompileKey"]):
    """Multiplies a number by what the fake pack says."""

    @dataclass(frozen=True)
    class CompileKey:
        head_dim: int
        dtype: str = "bfloat16"
        has_offset: bool = False
        eps: float = 0.0

    def dispatch(self, *, head_dim: int) -> CompileKey:
        return self.CompileKey(head_dim=head_dim)

    @kernel_launcher
    def __call__(self, *, head_dim: int, number: int) -> tuple[Any, ...]:
        return self.dispatch(head_dim=head_dim), (number,)


class Other(JitKernel["Other.CompileKey"]):
    """A kernel class that the lockfiles of the tests do not have."""

    @dataclass(frozen=True)
    class CompileKey:
        head_dim: int

    def dispatch(self, *, head_dim: int) -> CompileKey:
        return self.CompileKey(head_dim=head_dim)
