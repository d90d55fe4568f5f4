"""The kernel class: what a planner imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import fakekernels.tiles
from fakekernels.base import ScaleBase
from fakekernels.keys import Order, ScaleKey, Swizzle, dataclass
from fakekernels.tiles import ceil_div as divide_up

from kernelforge.contract import kernel_launcher

if TYPE_CHECKING:
    from fakekernels.unrelated import Tensor

STAGES = 2
UNROLL, VECTOR_BYTES = 4, 16


def unrelated_function(value: int) -> int:
    return value + 1


class Scale(ScaleBase["Scale.CompileKey"], layout="row"):
    @dataclass(frozen=True)
    class CompileKey:
        tile: int
        tiles: int
        full: bool
        dtype: str = "bfloat16"
        eps: float = 1e-6
        order: Order = Order.ROW
        swizzle: Swizzle = Swizzle(3, 4)
        stages: int = STAGES

    bounds: ClassVar = {"tokens": (1, 65536)}
    supported: ClassVar = {"dtype": ("bfloat16",)}
    compile_options = "--opt-level 3"
    requires_dsl = ">=4.8,<5"

    def dispatch(self, *, tokens: int, dtype: str = "bfloat16", eps: float = 1e-6) -> CompileKey:
        tiles = divide_up(tokens, 32)
        tile = tokens if tiles == 1 else divide_up(tokens, 4 * tiles) * 4
        return self.CompileKey(tile=tile, tiles=tiles, full=tokens % tile == 0, dtype=dtype, eps=eps)

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        from fakekernels.scale_device import ScaleDevice

        return ScaleDevice(compile_key, vector_bytes=VECTOR_BYTES)

    def warmup_inputs(self, compile_key: CompileKey) -> tuple[Any, ...]:
        return (self.fake_row(compile_key.tile), self.fake_row(fakekernels.tiles.padded(compile_key.tile)))

    @kernel_launcher
    def __call__(self, *, x: Tensor) -> tuple[Any, ...]:
        key: ScaleKey = self.dispatch(tokens=x.shape[0])
        return key, (x, 1.0)

    def reference(self, *, x: Tensor) -> Any:
        return x * 2
