"""Kernels for `explain`: what they dispatch is known by heart, and they are never compiled."""

from __future__ import annotations

from dataclasses import dataclass

from kernelforge.contract import IntRange, JitKernel


class Tiles(JitKernel["Tiles.CompileKey"]):
    """Three keys along tokens, for each dtype; the SM count decides where the last one begins."""

    @dataclass(frozen=True)
    class CompileKey:
        tile: int
        dtype: str
        has_tail: bool

    def dispatch(self, *, tokens: int, dtype: str, hidden: int) -> CompileKey:
        tile = 1 if tokens <= 4 else 16 if tokens <= self.device.num_sms else 64
        return self.CompileKey(tile=tile, dtype=dtype, has_tail=tile == 16 and tokens % 16 != 0)


class Listed(JitKernel["Listed.CompileKey"]):
    """Makes its keys by hand, and only some of them with dispatch."""

    @dataclass(frozen=True)
    class CompileKey:
        width: int

    def dispatch(self, width: int) -> CompileKey:
        return self.CompileKey(width)

    def get_warmup_keys(self, *, widths: IntRange) -> list[CompileKey]:
        return [self.CompileKey(7), *(self.dispatch(width) for width in widths)]
