"""Makes an object's host code the same on every builder.

The compiler's export generates host code for the processor that it runs on, with AVX where that has it, and offers no
option for it: two runners of one CI then build different bytes from one key, and a pod with an older processor dies of
an illegal instruction. Per function, LLVM takes the processor from an attribute if there is one, so every function gets
one. With it, builds under an emulated Nehalem and EPYC Milan and on a Sapphire Rapids gave equal objects.
"""

from __future__ import annotations

from typing import Any

# What every x86-64 processor has. Host code only checks arguments and launches: nothing in it would gain from more.
_PROCESSOR = "x86-64"
_FEATURES = '#llvm.target_features<["+cx8", "+fxsr", "+mmx", "+sse", "+sse2", "+x87"]>'


def pin_host_processor(compiled: Any) -> None:
    """Set processor and features of all functions in the module of a compiled kernel, before it is exported."""
    from cutlass._mlir import ir

    module = compiled.ir_module
    with module.context:
        pinned = {"target_cpu": ir.StringAttr.get(_PROCESSOR), "target_features": ir.Attribute.parse(_FEATURES)}
        for function in module.body.operations:
            if function.operation.name == "llvm.func":
                for name, value in pinned.items():
                    function.operation.attributes[name] = value
