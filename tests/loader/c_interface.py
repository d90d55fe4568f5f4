"""``python -m tests.loader.c_interface FOLDER SYMBOL``: compile a kernel and export it without tvm-ffi.

A process of its own, since the compiler holds on to the architecture that it is first used for. Leaves
``FOLDER/kernel.o``.
"""

# The type checker does not follow the compiler, so its decorators have no types.
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import sys

import cutlass
from cutlass import cute
from cutlass.base_dsl.compiler import GPUArch


@cute.kernel
def clear_first(values: cute.Tensor) -> None:
    values[0] = 0.0


@cute.jit
def launch_clear_first(values: cute.Tensor) -> None:
    clear_first(values).launch(grid=(1, 1, 1), block=(1, 1, 1))


def main() -> None:
    values = cute.runtime.make_fake_tensor(cutlass.Float32, (cute.sym_int32(),), (1,))
    compiled = cute.compile[GPUArch("sm_90a")](launch_clear_first, values)
    compiled.export_to_c(sys.argv[1], "kernel", function_prefix=sys.argv[2])


if __name__ == "__main__":
    main()
