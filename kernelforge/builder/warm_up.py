"""A very small kernel: what a template compiles once so that its children start warm. Imports the compiler."""

# The type checker does not follow the compiler, so its decorators have no types.
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import Any

from cutlass import cute


@cute.kernel
def clear_first(values: cute.Tensor) -> None:
    """Write one element."""
    values[0] = 0.0


@cute.jit
def launch_clear_first(values: cute.Tensor, stream: Any) -> None:
    """Launch one thread."""
    clear_first(values).launch(grid=(1, 1, 1), block=(1, 1, 1), stream=stream)
