"""``python -m tests.kernels.compile_keys ARCH JOBS``: compile the keys listed in the JSON file JOBS, one by one.

A process of its own, since the compiler holds on to the first architecture that it is used for. Each job is
``[symbol, kernel class, fields]``; ``<symbol>.o``, ``.cubin`` and ``.ptx`` are written beside JOBS.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kernelforge.builder.compiler import compile_key, import_compiler
from kernelforge.contract import JitKernel
from kernelforge.kernels.qk_norm import QkNorm
from kernelforge.kernels.rms_norm import RmsNorm
from kernelforge.target import Target

KERNELS: dict[str, type[JitKernel[Any]]] = {"QkNorm": QkNorm, "RmsNorm": RmsNorm}


def main() -> None:
    """Compile everything; any failure ends the process with a traceback."""
    arch, jobs = sys.argv[1], Path(sys.argv[2])
    folder = jobs.parent
    import_compiler(Target(arch))
    for symbol, name, fields in json.loads(jobs.read_text()):
        kernel_class = KERNELS[name]
        key = kernel_class.CompileKey(**fields)
        compiled = compile_key(
            kernel_class(),
            key,
            entry=symbol,
            arch=arch,
            folder=folder,
            on_traced=lambda ir: None,
            on_compiled=lambda: None,
        )
        (folder / f"{symbol}.o").write_bytes(compiled.object)
        (folder / f"{symbol}.cubin").write_bytes(compiled.cubin)
        (folder / f"{symbol}.ptx").write_bytes(compiled.ptx)


if __name__ == "__main__":
    main()
