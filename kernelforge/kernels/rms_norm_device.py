"""Device code of ``RmsNorm``: imported only where the kernel is traced.

Threads: a team of ``warps_per_row`` warps holds one row in registers, so x is read once. Vector ``v`` of a row belongs
to thread ``v % team`` (a warp's load covers consecutive bytes). Where the vectors do not divide by the team, the last
threads have one vector less: they load the row's last vector again, count it as zero and store nothing.
"""

# The type checker does not follow the compiler, so its decorators have no types.
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import Any

import cutlass
from cutlass import cute

from kernelforge.kernels.row_device import ELEMENT_TYPES, inverse_rms, scale_row, square_sum

_WARP_LANES = 32
_ELEMENT_BYTES = 2


class RmsNormDevice:
    """One specialisation; ``compile_key`` is a ``RmsNorm.CompileKey``."""

    def __init__(self, compile_key: Any) -> None:
        self.element = ELEMENT_TYPES[compile_key.dtype]
        self.hidden = compile_key.hidden
        self.eps = compile_key.eps
        self.weight_offset = compile_key.weight_offset
        self.vector_elements = compile_key.vector_bytes // _ELEMENT_BYTES
        self.vectors_per_row = compile_key.hidden // self.vector_elements
        self.warps_per_row = compile_key.warps_per_row
        self.team = compile_key.warps_per_row * _WARP_LANES
        self.vectors_per_thread = -(-self.vectors_per_row // self.team)
        self.rows_per_block = compile_key.rows_per_block

    @cute.jit
    def __call__(self, x: cute.Tensor, residual: Any, weight: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """``residual`` is None for a key without the fused addition."""
        self.normalize(x, residual, weight, out).launch(
            grid=[cute.ceil_div(x.shape[0], self.rows_per_block), 1, 1],
            block=[self.team * self.rows_per_block, 1, 1],
            stream=stream,
        )

    @cute.kernel
    def normalize(self, x: cute.Tensor, residual: Any, weight: cute.Tensor, out: cute.Tensor) -> None:
        thread = cute.arch.thread_idx()[0]
        team = thread // self.team
        place = thread % self.team
        row = cute.arch.block_idx()[0] * self.rows_per_block + team
        # A team past the end reads the last row again and stores nothing: every thread reaches the barrier.
        is_inside = row < x.shape[0]
        source = cutlass.min(row, x.shape[0] - 1)

        # All loads come before the first store: the compiler would not move the weight's across it.
        kept = self._load(x[source, None], place)
        factors = self._load(weight, place)
        if cutlass.const_expr(residual is not None):
            added = self._load(residual[source, None], place)
            kept.store((kept.load().to(cutlass.Float32) + added.load().to(cutlass.Float32)).to(self.element))
            self._store(kept, residual[row, None], is_inside, place)

        part = cutlass.Float32(0.0)
        for i in cutlass.range_constexpr(self.vectors_per_thread):
            is_counted = place + i * self.team < self.vectors_per_row
            part += cutlass.select_(is_counted, square_sum(kept[None, i]), cutlass.Float32(0.0))
        scale = inverse_rms(self._sum_over_team(part, place, team), self.hidden, self.eps)
        for i in cutlass.range_constexpr(self.vectors_per_thread):
            scale_row(kept[None, i], scale, factors[None, i], self.weight_offset)
        self._store(kept, out[row, None], is_inside, place)

    @cute.jit
    def _load(self, row: cute.Tensor, place: Any) -> cute.Tensor:
        """This thread's vectors of a row, ``(vector_elements, vectors_per_thread)`` in registers."""
        fragment = cute.make_rmem_tensor((self.vector_elements, self.vectors_per_thread), self.element)
        for i in cutlass.range_constexpr(self.vectors_per_thread):
            index = cutlass.min(place + i * self.team, self.vectors_per_row - 1)
            cute.autovec_copy(self._vector(row, index), fragment[None, i])
        return fragment

    @cute.jit
    def _store(self, fragment: cute.Tensor, row: cute.Tensor, is_inside: Any, place: Any) -> None:
        for i in cutlass.range_constexpr(self.vectors_per_thread):
            index = place + i * self.team
            if is_inside and index < self.vectors_per_row:
                cute.autovec_copy(fragment[None, i], self._vector(row, index))

    @cute.jit
    def _sum_over_team(self, part: Any, place: Any, team: Any) -> Any:
        total = cute.arch.warp_reduction_sum(part)
        if cutlass.const_expr(self.warps_per_row > 1):
            # A team's totals start at 16 bytes and are read in fours, past an odd end too.
            stride = cute.round_up(self.warps_per_row, 4)
            memory = cute.arch.alloc_smem(cutlass.Float32, stride * self.rows_per_block, alignment=16)
            layout = cute.make_layout((self.warps_per_row, self.rows_per_block), stride=(1, stride))
            warp_totals = cute.make_tensor(memory, layout)
            if place % _WARP_LANES == 0:
                warp_totals[place // _WARP_LANES, team] = total
            cute.arch.sync_threads()
            total = warp_totals[None, team].load().reduce(cute.ReductionOp.ADD, 0.0, 0)
        return total

    def _vector(self, row: cute.Tensor, index: Any) -> cute.Tensor:
        return cute.local_tile(row, (self.vector_elements,), (index,))
