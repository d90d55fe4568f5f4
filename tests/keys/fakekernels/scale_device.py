"""Device code: importing it fails, as it does without the compiler, so a planner must not."""

from __future__ import annotations

import functools
from typing import Any

from a_compiler_that_is_not_installed import jit
from fakekernels.arith import multiply
from fakekernels.arith import offset as shifted

FACTOR = 2.0
TABLE = {"row": 1}
TABLE["column"] = 2


class ScaleDevice:
    WARPS = 4

    def __init__(self, compile_key: Any, vector_bytes: int = 16) -> None:
        self.compile_key = compile_key
        self.vector_bytes = vector_bytes

    @jit
    def __call__(self, x: Any, factor: float = FACTOR) -> None:
        # The body that matters.
        for lane in range(self.WARPS * 32):
            x[lane] = multiply(x[lane], factor) + shifted(lane)


@functools.cache
def not_reached_from_the_kernel() -> int:
    return 3
