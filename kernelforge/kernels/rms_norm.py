"""RMS norm of each row of a matrix, with an optional residual addition in front, in one launch.

Pod side and builder side of the kernel; the device code is in ``rms_norm_device``, which only a builder imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kernelforge.contract import JitKernel, kernel_launcher
from kernelforge.errors import OutOfBounds
from kernelforge.kernels.dtype_name import dtype_name
from kernelforge.kernels.separate_rows import require_separate_rows
from kernelforge.kernels.vector_width import widest_vector_bytes

if TYPE_CHECKING:
    import torch

_ELEMENT_BYTES = 2
_WARP_LANES = 32
_MOST_WARPS_PER_BLOCK = 32
# Smaller blocks cost more launches than they save idle lanes.
_LEAST_WARPS_PER_BLOCK = 4
# Wide teams answer sooner, as long as all of them are resident at once: 32 warps of at most 64 registers fill an SM.
_RESIDENT_WARPS_PER_SM = 32
# Bytes of x that one thread holds, from the widest team to the narrowest. 64 of them in 32 warps are 64 KiB in flight
# per SM, more than twice what latency times bandwidth asks for.
_BYTES_PER_THREAD = (16, 32, 64)


class RmsNorm(JitKernel["RmsNorm.CompileKey"]):
    """``out = x / sqrt(mean(x^2) + eps) * (weight_offset + weight)`` over each row (arXiv:1910.07467, section 4).

    With a residual, ``residual`` first becomes ``x + residual`` (added in float32, rounded once), and the row that is
    normalized is that rounded sum: as vLLM's fused_add_rms_norm, so that the next layer adds to what was normalized.
    Else float32 from the load to the one rounding at the end. Every key is correct for every number of tokens: a key of
    another bucket is only slower.
    """

    @dataclass(frozen=True)
    class CompileKey:
        """Tokens and row strides are run-time values; a row's length decides the code."""

        hidden: int
        dtype: str
        has_residual: bool
        eps: float
        weight_offset: float
        vector_bytes: int
        warps_per_row: int
        rows_per_block: int

    bounds: ClassVar = {"tokens": (1, 1 << 20), "hidden": (1024, 16384)}
    supported: ClassVar = {"dtype": ("bfloat16", "float16"), "weight_offset": (0.0, 1.0)}
    requires_dsl = ">=4.8,<5"

    def dispatch(
        self, *, tokens: int, hidden: int, dtype: str, has_residual: bool, eps: float, weight_offset: float
    ) -> CompileKey:
        """Few rows: wide teams of warps per row. Many: narrow ones, with several loads in flight per thread."""
        if hidden * _ELEMENT_BYTES % 16:
            raise OutOfBounds(f"hidden={hidden} is not a multiple of 8", hint="rows are loaded 16 bytes at a time")
        row_bytes = hidden * _ELEMENT_BYTES
        bytes_per_thread, warps_per_row = _team(tokens, row_bytes, self.device.num_sms)
        # With a row for each SM, rows may share a block.
        shares = tokens > self.device.num_sms
        return self.CompileKey(
            hidden=hidden,
            dtype=dtype,
            has_residual=has_residual,
            eps=float(eps),
            weight_offset=float(weight_offset),
            vector_bytes=min(bytes_per_thread, widest_vector_bytes(self.device.arch, row_bytes)),
            warps_per_row=warps_per_row,
            rows_per_block=max(1, _LEAST_WARPS_PER_BLOCK // warps_per_row) if shares else 1,
        )

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        """Host entry point ``(x, residual or None, weight, out, stream)``."""
        from kernelforge.kernels.rms_norm_device import RmsNormDevice

        return RmsNormDevice(compile_key)

    def warmup_inputs(self, compile_key: CompileKey) -> tuple[Any, ...]:
        """``(x, residual, weight, out)``, ``residual`` being None for a key without it."""
        from cutlass import cute
        from cutlass.cute.runtime import make_fake_tensor

        from kernelforge.kernels.row_device import ELEMENT_TYPES

        element, hidden = ELEMENT_TYPES[compile_key.dtype], compile_key.hidden
        vector_bytes = compile_key.vector_bytes
        tokens = cute.sym_int32()

        def fake_rows() -> Any:
            row_stride = cute.sym_int64(divisibility=vector_bytes // _ELEMENT_BYTES)
            return make_fake_tensor(element, (tokens, hidden), (row_stride, 1), assumed_align=vector_bytes)

        weight = make_fake_tensor(element, (hidden,), (1,), assumed_align=vector_bytes)
        return fake_rows(), fake_rows() if compile_key.has_residual else None, weight, fake_rows()

    @kernel_launcher
    def __call__(
        self,
        *,
        x: torch.Tensor,
        weight: torch.Tensor,
        residual: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
        eps: float = 1e-6,
        weight_offset: float = 0.0,
    ) -> tuple[Any, ...]:
        """Norm of ``x`` [tokens, hidden] into ``out``, a new tensor by default; returns ``out`` or ``(out, residual)``.

        ``residual`` [tokens, hidden] is overwritten with the sum. ``weight`` is [hidden]. All have one dtype; the row
        strides are free; all start at a multiple of 16 bytes (32 on Blackwell). ``out`` may be ``x``; nothing else may
        overlap: rows of one tensor are ``CallRefused``, tensors among each other are not checked.
        """
        tokens, hidden = x.shape
        compile_key = self.dispatch(
            tokens=tokens,
            hidden=hidden,
            dtype=dtype_name(x.dtype),
            has_residual=residual is not None,
            eps=eps,
            weight_offset=weight_offset,
        )
        if out is None:
            out = x.new_empty(x.shape)
        else:
            require_separate_rows("out", out, hidden)
        if residual is not None:
            require_separate_rows("residual", residual, hidden)
        return compile_key, (x, residual, weight, out), out if residual is None else (out, residual)

    def reference(
        self,
        *,
        x: torch.Tensor,
        weight: torch.Tensor,
        residual: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
        eps: float = 1e-6,
        weight_offset: float = 0.0,
    ) -> Any:
        """What ``__call__`` with the same arguments must return, in float32; the norm is not yet rounded.

        Call it first: ``__call__`` overwrites ``residual``. ``out`` is not read.
        """
        row = x.float()
        if residual is not None:
            row = (row + residual.float()).to(x.dtype).float()
        scale = (row.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
        normalized = row * scale * (weight.float() + weight_offset)
        return normalized if residual is None else (normalized, row)

    def cost(self, compile_key: CompileKey, *, tokens: int) -> dict[str, int]:
        """``bytes`` that must move (x in, out; residual in and out; the weight) and ``flops`` of one call."""
        elements = tokens * compile_key.hidden
        passes, operations = (4, 5) if compile_key.has_residual else (2, 4)
        return {"bytes": _ELEMENT_BYTES * (passes * elements + compile_key.hidden), "flops": operations * elements}

    def inputs(
        self, compile_key: CompileKey, generator: torch.Generator, *, tokens: int, device: str
    ) -> dict[str, Any]:
        """Random arguments of ``__call__`` and ``reference``: x is a slice of wider rows, ``out`` is poisoned with NaN.

        Rows differ in magnitude by up to 64, so that a scale taken from another row shows.
        """
        import torch

        hidden, dtype = compile_key.hidden, getattr(torch, compile_key.dtype)
        options: dict[str, Any] = {"generator": generator, "device": generator.device}
        rows = torch.randn(2, tokens, hidden + 64, **options) * torch.exp2(torch.rand(tokens, 1, **options) * 6 - 3)
        weight = 1 - compile_key.weight_offset + 0.25 * torch.randn(hidden, **options)
        x, residual = rows.to(device, dtype)[..., :hidden]
        return {
            "x": x,
            "weight": weight.to(device, dtype),
            "residual": residual if compile_key.has_residual else None,
            "out": torch.full((tokens, hidden), torch.nan, dtype=dtype, device=device),
            "eps": compile_key.eps,
            "weight_offset": compile_key.weight_offset,
        }


def _team(tokens: int, row_bytes: int, num_sms: int) -> tuple[int, int]:
    """``(bytes_per_thread, warps_per_row)`` of the widest team with which all rows are resident at once.

    Where no team is, the narrowest.
    """
    for bytes_per_thread in _BYTES_PER_THREAD:
        warps = -(-row_bytes // (bytes_per_thread * _WARP_LANES))
        if warps <= _MOST_WARPS_PER_BLOCK and tokens * warps <= num_sms * _RESIDENT_WARPS_PER_SM:
            break
    return bytes_per_thread, warps
