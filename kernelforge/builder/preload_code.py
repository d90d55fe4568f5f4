"""A way to load a kernel's device code before its first call: a function in every object, and one in the pack for all.

By itself an object loads its device code at the first call, inside ``cuda_dialect_init_library_once`` of NVIDIA's
static runtime, which (read in its machine code, 4.8.1) takes one lock for the whole pack, loads the image once for the
process, prepares its kernels on every device that the process sees, and is content when that worked on one of them.
Where it failed it is silent until a launch there fails, so preloading prepares the asked device a second time and takes
the answer: the same handles and attributes again. What neither does is bring the code onto the card, because CUDA
loads lazily; ``preload.c`` asks for that kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelforge.errors import ToolchainError

# The callable in every pack, beside those of its kernels, whose names have two more parts.
PRELOAD_ENTRY = "kf_preload"
PRELOAD_CODE = Path(__file__).with_name("preload.c")
_INITIALISE = "cuda_dialect_init_library_once"
# Returns 0, a CUDA error code, or -1 with an error raised; `library` receives the handle of the loaded image.
_FUNCTION = """
llvm.mlir.global private @{state}(0 : i64) : i64
llvm.func @{load_image}(!llvm.ptr) -> i32
llvm.func @{prepare}(!llvm.ptr, i32) -> i32
llvm.func @{set_error}(!llvm.ptr, !llvm.ptr)
llvm.func @{initialise}(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
llvm.func @preload(%device: i32, %library: !llvm.ptr) -> i32 {{
  %success = llvm.mlir.constant(0 : i32) : i32
  %state = llvm.mlir.addressof @{state} : !llvm.ptr
  %load_image = llvm.mlir.addressof @{load_image} : !llvm.ptr
  %prepare = llvm.mlir.addressof @{prepare} : !llvm.ptr
  %set_error = llvm.mlir.addressof @{set_error} : !llvm.ptr
  %code = llvm.call @{initialise}(%state, %load_image, %prepare, %set_error)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  %is_initialised = llvm.icmp "eq" %code, %success : i32
  llvm.cond_br %is_initialised, ^initialised, ^failed
^initialised:
  %image = llvm.load %state : !llvm.ptr -> !llvm.ptr
  llvm.store %image, %library : !llvm.ptr, !llvm.ptr
  %prepared = llvm.call @{prepare}(%state, %device) : (!llvm.ptr, i32) -> i32
  llvm.return %prepared : i32
^failed:
  llvm.return %code : i32
}}
"""


def add_preload(compiled: Any) -> None:
    """Add the function ``preload(device, library)`` to the module of a compiled kernel, before it is exported.

    Device code, and all other host code, stays as it was. Raises ``ToolchainError`` when the module does not load its
    device code in the one place that is known here.
    """
    from cutlass._mlir import ir

    module = compiled.ir_module
    names = dict(zip(("state", "load_image", "prepare", "set_error"), _initialisation(module), strict=True))
    with module.context, ir.Location.unknown():
        # Parsed beside declarations of what it uses; in the kernel's module it finds the things themselves.
        parsed = ir.Module.parse(_FUNCTION.format(initialise=_INITIALISE, **names))
        function = list(parsed.body.operations)[-1].operation
        function.detach_from_parent()
        module.body.append(function)


def preload_symbol(symbol: str) -> str:
    """The name that the compiler's export gives to ``preload`` in the object of ``symbol``."""
    return f"__cute_internal_{symbol}_preload"


def preload_source(symbols: Sequence[str]) -> str:
    """C source of a pack's ``kf_preload``: the table of its kernels, then the code, which is the same for all packs."""
    names = [preload_symbol(symbol) for symbol in sorted(symbols)]
    declarations = "".join(f"extern int {name}(int device, void **library);\n" for name in names)
    table = f"static int (*const preloads[])(int device, void **library) = {{{', '.join(names)}}};\n"
    return declarations + table + PRELOAD_CODE.read_text()


def _initialisation(module: Any) -> list[str]:
    """Names of what the entry passes to the runtime: the image's state, two functions, and where errors go."""
    from cutlass._mlir import ir

    found: list[list[str]] = []

    def visit(operation: Any) -> Any:
        if operation.name == "llvm.call" and _symbol(operation, "callee") == _INITIALISE:
            found.append([_symbol(operand.owner, "global_name") for operand in operation.operands])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if len(found) != 1 or len(found[0]) != 4 or "" in found[0]:
        raise ToolchainError(
            f"the compiled module initialises its device code in {len(found)} places, or in an unknown way: {found}",
            hint="run kernelforge doctor: this is another compiler than the one that the builder knows",
        )
    return found[0]


def _symbol(operation: Any, attribute: str) -> str:
    """The symbol that an attribute names; nothing if there is no such attribute."""
    from cutlass._mlir import ir

    attributes = operation.attributes
    return str(ir.FlatSymbolRefAttr(attributes[attribute]).value) if attribute in attributes else ""
