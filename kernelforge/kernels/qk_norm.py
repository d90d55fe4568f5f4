"""RMS norm of every head of q and of k, in place, in one launch: what attention layers with QK norm run before RoPE.

Pod side and builder side of the kernel; the device code is in ``qk_norm_device``, which only a builder imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kernelforge.contract import JitKernel, kernel_launcher
from kernelforge.kernels.dtype_name import dtype_name
from kernelforge.kernels.separate_rows import require_separate_rows
from kernelforge.kernels.vector_width import widest_vector_bytes

if TYPE_CHECKING:
    import torch

_ELEMENT_BYTES = 2
_WARP_LANES = 32
# Warps that one SM needs before a warp may take more than one token: half of the 64 that it can hold, since 32 warps
# with two 16-byte loads each already have 32 KiB in flight, more than latency times bandwidth asks for (24 KiB on an
# H200: 4.8 TB/s over 132 SMs for 0.7 us).
_BUSY_WARPS_PER_SM = 32
# More loads in flight per lane only cost registers.
_MOST_LOAD_BYTES_PER_LANE = 64


class QkNorm(JitKernel["QkNorm.CompileKey"]):
    """``y = x / sqrt(mean(x^2) + eps) * (weight_offset + weight)`` over each head (arXiv:1910.07467, section 4).

    Float32 from the load to the one rounding at the end (vLLM's kernel rounds once more, before the weight). Every key
    is correct for every number of tokens and heads: a key of another bucket is only slower.
    """

    @dataclass(frozen=True)
    class CompileKey:
        """Head counts, tokens and token strides are run-time values: constants would save no instruction (the host
        turns the division by the head count into a multiplication), and one object serves all tensor parallel sizes.
        """

        head_dim: int
        dtype: str
        eps: float
        weight_offset: float
        vector_bytes: int
        tokens_per_group: int
        warps_per_block: int

    bounds: ClassVar = {"tokens": (1, 1 << 20), "q_heads": (1, 256), "kv_heads": (1, 256)}
    supported: ClassVar = {"head_dim": (64, 128, 256), "dtype": ("bfloat16", "float16"), "weight_offset": (0.0, 1.0)}
    requires_dsl = ">=4.8,<5"

    def dispatch(
        self, *, tokens: int, q_heads: int, kv_heads: int, head_dim: int, dtype: str, eps: float, weight_offset: float
    ) -> CompileKey:
        """Few tokens: small blocks on all SMs. Many: big blocks, and several tokens in flight per group of lanes."""
        vector_bytes = widest_vector_bytes(self.device.arch, head_dim * _ELEMENT_BYTES)
        lanes = (q_heads + kv_heads) * head_dim * _ELEMENT_BYTES // vector_bytes
        tokens_per_group, warps_per_block = _block_shape(tokens, lanes, vector_bytes, self.device.num_sms)
        return self.CompileKey(
            head_dim=head_dim,
            dtype=dtype,
            eps=float(eps),
            weight_offset=float(weight_offset),
            vector_bytes=vector_bytes,
            tokens_per_group=tokens_per_group,
            warps_per_block=warps_per_block,
        )

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        """Host entry point ``(q, k, q_weight, k_weight, stream)``."""
        from kernelforge.kernels.qk_norm_device import QkNormDevice

        return QkNormDevice(compile_key)

    def warmup_inputs(self, compile_key: CompileKey) -> tuple[Any, ...]:
        """``(q, k, q_weight, k_weight)``. The object refuses other shapes, dtypes, strides and alignments by itself."""
        from cutlass import cute
        from cutlass.cute.runtime import make_fake_tensor

        from kernelforge.kernels.row_device import ELEMENT_TYPES

        element, head_dim = ELEMENT_TYPES[compile_key.dtype], compile_key.head_dim
        vector_bytes = compile_key.vector_bytes
        tokens = cute.sym_int32()

        def fake_heads() -> Any:
            token_stride = cute.sym_int64(divisibility=vector_bytes // _ELEMENT_BYTES)
            shape, stride = (tokens, cute.sym_int32(), head_dim), (token_stride, head_dim, 1)
            return make_fake_tensor(element, shape, stride, assumed_align=vector_bytes)

        def fake_weight() -> Any:
            return make_fake_tensor(element, (head_dim,), (1,), assumed_align=vector_bytes)

        return fake_heads(), fake_heads(), fake_weight(), fake_weight()

    @kernel_launcher
    def __call__(
        self,
        *,
        q: torch.Tensor,
        k: torch.Tensor,
        q_weight: torch.Tensor,
        k_weight: torch.Tensor,
        eps: float = 1e-6,
        weight_offset: float = 0.0,
    ) -> tuple[Any, ...]:
        """Normalize ``q`` [tokens, q_heads, head_dim] and ``k`` [tokens, kv_heads, head_dim] in place; returns both.

        They may be slices of one qkv buffer: the token stride is free, heads and elements lie next to each other.
        The weights are [head_dim], of the same dtype. All start at a multiple of 16 bytes (32 on Blackwell). No two
        tokens share memory (``CallRefused``), and neither do q and k, which nothing checks.
        """
        tokens, q_heads, head_dim = q.shape
        kv_heads = k.shape[1]
        compile_key = self.dispatch(
            tokens=tokens,
            q_heads=q_heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            dtype=dtype_name(q.dtype),
            eps=eps,
            weight_offset=weight_offset,
        )
        require_separate_rows("q", q, q_heads * head_dim)
        require_separate_rows("k", k, kv_heads * head_dim)
        return compile_key, (q, k, q_weight, k_weight), (q, k)

    def reference(
        self,
        *,
        q: torch.Tensor,
        k: torch.Tensor,
        q_weight: torch.Tensor,
        k_weight: torch.Tensor,
        eps: float = 1e-6,
        weight_offset: float = 0.0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What ``__call__`` with the same arguments must write to q and k, in float32 and not yet rounded.

        Call it first: ``__call__`` overwrites its inputs.
        """

        def normalized(heads: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            x = heads.float()
            return x * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * (weight.float() + weight_offset)

        return normalized(q, q_weight), normalized(k, k_weight)

    def cost(self, compile_key: CompileKey, *, tokens: int, q_heads: int, kv_heads: int) -> dict[str, int]:
        """``bytes`` that must move (each element once in, once out; both weights) and ``flops`` of one call."""
        elements = tokens * (q_heads + kv_heads) * compile_key.head_dim
        return {"bytes": _ELEMENT_BYTES * (2 * elements + 2 * compile_key.head_dim), "flops": 4 * elements}

    def inputs(
        self,
        compile_key: CompileKey,
        generator: torch.Generator,
        *,
        tokens: int,
        device: str,
        q_heads: int = 32,
        kv_heads: int = 8,
    ) -> dict[str, Any]:
        """Random arguments of ``__call__`` and ``reference``: q and k are slices of one qkv buffer, as in an engine.

        Tokens differ in magnitude by up to 64, so that a scale taken from another token shows.
        """
        import torch

        head_dim = compile_key.head_dim
        options: dict[str, Any] = {"generator": generator, "device": generator.device}
        qkv = torch.randn(tokens, q_heads + 2 * kv_heads, head_dim, **options)
        qkv *= torch.exp2(torch.rand(tokens, 1, 1, **options) * 6 - 3)
        weights = 1 - compile_key.weight_offset + 0.25 * torch.randn(2, head_dim, **options)
        dtype = getattr(torch, compile_key.dtype)
        qkv, weights = qkv.to(device, dtype), weights.to(device, dtype)
        return {
            "q": qkv[:, :q_heads],
            "k": qkv[:, q_heads : q_heads + kv_heads],
            "q_weight": weights[0],
            "k_weight": weights[1],
            "eps": compile_key.eps,
            "weight_offset": compile_key.weight_offset,
        }


def _block_shape(tokens: int, lanes_per_token: int, vector_bytes: int, num_sms: int) -> tuple[int, int]:
    """``(tokens_per_group, warps_per_block)``."""

    def warps(tokens_per_group: int) -> int:
        return _ceil_div(_ceil_div(tokens, tokens_per_group) * lanes_per_token, _WARP_LANES)

    for tokens_per_group in (4, 2):
        fits = tokens_per_group * vector_bytes <= _MOST_LOAD_BYTES_PER_LANE
        if fits and warps(tokens_per_group) >= num_sms * _BUSY_WARPS_PER_SM:
            return tokens_per_group, 8
    for warps_per_block in (1, 2):
        if warps(1) <= num_sms * warps_per_block:
            return 1, warps_per_block
    return 1, 4


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
