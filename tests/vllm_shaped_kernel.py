"""A kernel class as vLLM's CuTeDSL kernels are written, for vLLM's base class: `test_contract` changes its imports.

No annotations from the future, the compiler imported at the top, device code inside `kernel`, a scalar of the compiler
among the inputs, an epilogue, a singleton of the module, and no `reference`.
"""

from dataclasses import dataclass
from typing import Any

import cutlass
from cuda.bindings.driver import CUstream
from cutlass import Float32, cute
from cutlass.cute.runtime import make_fake_tensor
from vllm.model_executor.warmup.jit_warmup import WarmupChoices, WarmupIntRange, kernel_launcher
from vllm.model_executor.warmup.jit_warmup_cutedsl_helper import CuTeDSLLaunchSpec, VllmCuTeDSLJitKernel


@cute.jit
def _scaled(value: Float32, factor: Float32):
    return value * factor


class ScaleRows(VllmCuTeDSLJitKernel["ScaleRows.CompileKey"]):
    """Multiplies rows by a factor, `rows_per_block` rows in one block."""

    lanes = 32
    compile_options = "--enable-tvm-ffi --ptxas-options -maxrregcount=64"

    @dataclass(frozen=True)
    class CompileKey:
        width: int
        rows_per_block: int
        negate: bool

    @staticmethod
    def kernel(compile_key: CompileKey) -> Any:
        width = compile_key.width
        rows_per_block = compile_key.rows_per_block
        negate = compile_key.negate
        lanes = ScaleRows.lanes

        @cute.kernel
        def device_kernel(x: cute.Tensor, out: cute.Tensor, factor: Float32):
            lane, row_in_block, _ = cute.arch.thread_idx()
            row = cute.arch.block_idx()[0] * rows_per_block + row_in_block
            if row < x.shape[0]:
                for column in range(lane, width, lanes):
                    scaled = _scaled(x[row, column], factor)
                    out[row, column] = -scaled if cutlass.const_expr(negate) else scaled

        @cute.jit
        def host_entrypoint(x: cute.Tensor, out: cute.Tensor, factor: Float32, stream: CUstream):
            device_kernel(x, out, factor).launch(
                grid=(cute.ceil_div(x.shape[0], rows_per_block), 1, 1),
                block=(lanes, rows_per_block, 1),
                stream=stream,
            )

        return host_entrypoint

    def dispatch(self, *, tokens: int, width: int, negate: bool) -> CompileKey:
        return self.CompileKey(width=width, rows_per_block=1 if tokens <= 8 else 4, negate=negate)

    def get_warmup_keys(self, *, max_tokens: int, width: int) -> list[CompileKey]:
        return self._trace_dispatch(self.dispatch)(
            tokens=WarmupIntRange(1, max_tokens + 1),
            width=[width],
            negate=WarmupChoices(False, True),
        )

    def warmup_inputs(self, compile_key: CompileKey) -> tuple[Any, ...]:
        rows = cute.sym_int()
        shape = (rows, compile_key.width)
        return (
            make_fake_tensor(Float32, shape, (compile_key.width, 1), assumed_align=16),
            make_fake_tensor(Float32, shape, (compile_key.width, 1), assumed_align=16),
            Float32(1.0),
        )

    @kernel_launcher
    def __call__(self, x: Any, factor: float, *, negate: bool = False) -> CuTeDSLLaunchSpec[CompileKey]:
        compile_key = self.dispatch(tokens=len(x), width=len(x[0]), negate=negate)
        out = [list(row) for row in x]

        def epilogue() -> Any:
            return ("finished", out)

        return compile_key, (x, out, factor), out, epilogue


_SCALE_ROWS = ScaleRows()
