"""The only module that drives the compiler: import it for one target, compile one key.

Runs in a template process or in a child of it, never in the process of a command. Three facts rule it (each was
measured and has a test): the DSL latches the architecture at its first import and silently targets sm_100a when none
is given; of two installed flavours it takes the one it likes best; and one process compiles one kernel at a time.
"""

from __future__ import annotations

import functools
import importlib.util
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelforge.builder.driver_stand_in import answer_for, stand_in
from kernelforge.builder.host_code import pin_host_processor
from kernelforge.builder.preload_code import add_preload
from kernelforge.contract import JitKernel
from kernelforge.errors import ToolchainError
from kernelforge.target import Target

_EXTENSION = "cutlass._mlir._mlir_libs._cutlass_ir"
# Environment of every process that compiles; its other variables are chosen by `pool`.
ARCH_VARIABLE = "CUTE_DSL_ARCH"


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of one key: host object with the device image inside, the image, and its PTX."""

    object: bytes
    cubin: bytes
    ptx: bytes


def import_compiler(target: Target) -> None:
    """Import the compiler pinned to ``target`` and run it once, so that forked children start warm.

    A first compile costs 0.3 s more than the next ones (1.5 s more when torch is imported along the way; a compile
    needs no torch, so it is kept out). Raises ``ToolchainError`` when the flavour is absent or another one was loaded.
    """
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]  # None makes `import torch` raise ImportError
    _pin_flavour(target.cuda)
    import cutlass
    import elftools.elf.elffile  # noqa: F401 (reads the images; each child would take 25 ms to import it)

    loaded = f"cu{cutlass.CUDA_VERSION.major}"
    if loaded != target.cuda:
        raise ToolchainError(
            f"the compiler is {loaded}, the target wants {target.cuda}", hint=_install_hint(target.cuda)
        )
    stand_in(target.arch)
    _warm_up(target.arch)
    _let_traces_be_seen()


def compile_key(
    kernel: JitKernel[Any],
    key: Any,
    *,
    entry: str,
    arch: str,
    folder: Path,
    on_traced: Callable[[bytes], None],
    on_compiled: Callable[[], None],
) -> Compiled:
    """Compile one key into an object whose callable is named ``entry``. ``folder`` receives the compiler's files.

    ``on_traced`` gets the traced IR as text without source lines, before the passes; ``on_compiled`` is called between
    them and the export.

    ``no_jit_engine`` skips linking the host code into this process: 0.75 to 0.9 of the time, the same bytes. The host
    code is for any processor of the target's host, the builder's own does not matter; beside the callable it has a
    function that loads the device code and launches nothing.
    """
    from cutlass import cute

    answer_for(key, arch)
    arguments = kernel.warmup_inputs(key)
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    options = f"{kernel.compile_options} {_own_options(arch, folder)}"
    _Traces.action = on_traced
    compiled = cute.compile(kernel.kernel(key), *arguments, stream, no_jit_engine=True, options=options)
    on_compiled()
    add_preload(compiled)
    pin_host_processor(compiled)
    path = folder / "kernel.o"
    compiled.export_to_c(str(path), function_name=entry)
    return Compiled(path.read_bytes(), compiled.artifacts.CUBIN, _as_bytes(compiled.artifacts.PTX))


class _Traces:
    """What gets the IR of the next trace."""

    action: Callable[[bytes], None]


def _let_traces_be_seen() -> None:
    """The compiler has no hook between tracing and its passes; in a process of ours it gets one."""
    from cutlass.base_dsl.compiler import Compiler

    run_passes = Compiler.compile

    @functools.wraps(run_passes)
    def after_trace(self: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        _Traces.action(module.operation.get_asm(enable_debug_info=False).encode())
        return run_passes(self, module, *args, **kwargs)

    Compiler.compile = after_trace


def _own_options(arch: str, folder: Path) -> str:
    """Behind the kernel's own options, so that these cannot change ours.

    As text, because a text of options makes the compiler forget those that it was given as objects. Image and PTX come
    back through files that are named by argument types alone: without a folder of its own, a compile can read the image
    that another one has just written.
    """
    return shlex.join(["--gpu-arch", arch, "--enable-tvm-ffi", "--keep-cubin", "--keep-ptx", "--dump-dir", str(folder)])


def _pin_flavour(cuda: str) -> None:
    """Load the compiler's extension of this flavour under the name that its own loader looks for first.

    Without a driver the DSL takes the newest flavour installed, with one the newest that the driver supports: the same
    command could build other bytes on another machine. It offers no option for it.
    """
    spec = importlib.util.find_spec("nvidia_cutlass_dsl")
    if spec is None or not spec.submodule_search_locations:
        raise ToolchainError("the compiler is not installed", hint=_install_hint(cuda))
    folder = Path(next(iter(spec.submodule_search_locations)), "dsl_packages", "cutlass", "_mlir", "_mlir_libs")
    files = sorted(folder.glob(f"_cutlass_ir.{cuda}.*.so"))
    if len(files) != 1:
        raise ToolchainError(f"found {len(files)} extensions of flavour {cuda} in {folder}", hint=_install_hint(cuda))
    extension_spec = importlib.util.spec_from_file_location(_EXTENSION, files[0])
    if extension_spec is None or extension_spec.loader is None:
        raise ToolchainError(f"{files[0]} cannot be imported", hint=_install_hint(cuda))
    extension = importlib.util.module_from_spec(extension_spec)
    sys.modules[_EXTENSION] = extension
    extension_spec.loader.exec_module(extension)
    import cutlass._mlir._mlir_libs as parent

    # The DSL's preprocessor reads it as an attribute of its package.
    parent._cutlass_ir = extension


def _warm_up(arch: str) -> None:
    """Compile a very small kernel: it touches every pass, and shows here that the toolchain works at all."""
    import cutlass
    from cutlass import cute
    from cutlass.base_dsl.compiler import EnableTVMFFI, GPUArch

    from kernelforge.builder.warm_up import launch_clear_first

    values = cute.runtime.make_fake_tensor(cutlass.Float32, (cute.sym_int32(),), (1,))
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    cute.compile[GPUArch(arch), EnableTVMFFI(True)](launch_clear_first, values, stream, no_jit_engine=True)


def _as_bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode()


def _install_hint(cuda: str) -> str:
    return f"pip install 'kernelforge[build]' installs the compiler with flavour {cuda}"
