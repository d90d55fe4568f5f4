"""Device code of ``QkNorm``: imported only where the kernel is traced.

Threads: ``head_dim / vector_elements`` consecutive lanes hold one head, one vector each, so a warp holds 1 to 8 heads
and a head is never split over warps. Such a lane group owns one head of ``tokens_per_group`` consecutive tokens, and
neighbouring groups own neighbouring heads: a warp's load covers consecutive bytes of one token, the weight is read
once per group, and the loads of all its tokens are in flight together.
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


class QkNormDevice:
    """One specialisation; ``compile_key`` is a ``QkNorm.CompileKey``."""

    def __init__(self, compile_key: Any) -> None:
        self.element = ELEMENT_TYPES[compile_key.dtype]
        self.head_dim = compile_key.head_dim
        self.eps = compile_key.eps
        self.weight_offset = compile_key.weight_offset
        self.vector_bytes = compile_key.vector_bytes
        self.vector_elements = compile_key.vector_bytes // _ELEMENT_BYTES
        self.lanes_per_head = compile_key.head_dim // self.vector_elements
        self.threads = compile_key.warps_per_block * _WARP_LANES
        self.groups_per_block = self.threads // self.lanes_per_head
        self.tokens_per_group = compile_key.tokens_per_group

    @cute.jit
    def __call__(
        self, q: cute.Tensor, k: cute.Tensor, q_weight: cute.Tensor, k_weight: cute.Tensor, stream: Any
    ) -> None:
        heads = q.shape[1] + k.shape[1]
        groups = cute.ceil_div(q.shape[0], self.tokens_per_group) * heads
        # The host turns the division by the head count into a multiplication, so that one object serves every head
        # count, and so every tensor parallel size.
        divisor = cute.fast_divmod_create_divisor_v2(heads)
        self.normalize(q, k, q_weight, k_weight, divisor).launch(
            grid=[cute.ceil_div(groups, self.groups_per_block), 1, 1], block=[self.threads, 1, 1], stream=stream
        )

    @cute.kernel
    def normalize(
        self,
        q: cute.Tensor,
        k: cute.Tensor,
        q_weight: cute.Tensor,
        k_weight: cute.Tensor,
        heads: cute.FastDivmodDivisorV2,
    ) -> None:
        thread = cute.arch.thread_idx()[0]
        group = cute.arch.block_idx()[0] * self.groups_per_block + thread // self.lanes_per_head
        lane_bytes = (thread % self.lanes_per_head) * self.vector_bytes
        token_block, head = divmod(group, heads)
        first_token = token_block * self.tokens_per_group

        # Groups of q and of k meet inside a warp, so the choice is a select: the shuffles below need every lane.
        is_q = head < q.shape[1]
        head = cutlass.select_(is_q, head, head - q.shape[1])
        weight_start = cutlass.select_(is_q, q_weight.iterator.toint(), k_weight.iterator.toint())
        start = cutlass.select_(is_q, q.iterator.toint(), k.iterator.toint())
        start += head * (self.head_dim * _ELEMENT_BYTES) + lane_bytes
        token_bytes = cutlass.select_(is_q, q.stride[0], k.stride[0]) * _ELEMENT_BYTES

        # A token past the end reads the last token again and stores nothing: loads without branches stay together.
        vectors = cute.make_rmem_tensor((self.vector_elements, self.tokens_per_group), self.element)
        for i in cutlass.range_constexpr(self.tokens_per_group):
            token = cutlass.min(first_token + i, q.shape[0] - 1)
            cute.autovec_copy(self._vector_at(start + token * token_bytes), vectors[None, i])
        weight = cute.make_rmem_tensor((self.vector_elements,), self.element)
        cute.autovec_copy(self._vector_at(weight_start + lane_bytes), weight)

        for i in cutlass.range_constexpr(self.tokens_per_group):
            total = cute.arch.warp_reduction_sum(square_sum(vectors[None, i]), threads_in_group=self.lanes_per_head)
            scale_row(vectors[None, i], inverse_rms(total, self.head_dim, self.eps), weight, self.weight_offset)
        for i in cutlass.range_constexpr(self.tokens_per_group):
            token = first_token + i
            if token < q.shape[0]:
                cute.autovec_copy(vectors[None, i], self._vector_at(start + token * token_bytes))

    def _vector_at(self, address: Any) -> cute.Tensor:
        pointer = cute.make_ptr(self.element, address, cute.AddressSpace.gmem, assumed_align=self.vector_bytes)
        return cute.make_tensor(pointer, cute.make_layout(self.vector_elements))
