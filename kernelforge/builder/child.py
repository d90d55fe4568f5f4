"""The life of one forked child: compile one key, check what came out, leave files and a result, exit.

Whatever a kernel does here (raise, print, change the folder or the environment, abort, hang) ends with this process.
Only files leave it; ``result.json`` is written last and by rename, so a child that died left no result, but the name of
the phase that it was in.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from kernelforge.builder.cubin import read_cubin
from kernelforge.builder.host_object import object_symbols
from kernelforge.builder.job import CUBIN_FILE, LOG_FILE, OBJECT_FILE, PHASE_FILE, RESULT_FILE, CompileFacts
from kernelforge.contract import JitKernel
from kernelforge.digest import Digest
from kernelforge.errors import KernelForgeError, ToolchainError

# The largest object seen has 340 KB.
_LARGEST_FILE_BYTES = 1 << 30
_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))


def run_child(
    kernel: JitKernel[Any], key: Any, *, symbol: str, arch: str, folder: Path, known_ir: str = ""
) -> NoReturn:
    """Compile ``key`` into ``folder`` and exit; after the trace if that gives the IR with the digest ``known_ir``."""
    phase = _Phase(folder)
    try:
        _limit_damage()
        _into_log(folder)
        facts = _compile(kernel, key, symbol, arch, folder, phase, known_ir)
        _write_result(folder, {"facts": facts.to_json()})
    except BaseException as error:  # noqa: BLE001 (also SystemExit: a kernel that exits is a failed kernel)
        failure = {"phase": phase.name, "message": _message(error), "source": _source(error)}
        _write_result(folder, {"failure": failure})
        traceback.print_exc()
    finally:
        _leave()


def _limit_damage() -> None:
    """No core files, no file (the log above all) that fills the disk; out of memory, the system ends this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE_BYTES, _LARGEST_FILE_BYTES))
    with contextlib.suppress(OSError):  # some sandboxes have no such file
        Path("/proc/self/oom_score_adj").write_text("1000")


def _leave() -> NoReturn:
    """End this process, whatever the kernel did to its streams; the template's exit handlers must not run here."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(0)


class _Phase:
    """Which part of the work is under way: kept in a file too, for when this process does not live to tell."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / PHASE_FILE
        self.enter("trace")

    def enter(self, name: str) -> None:
        """From now on errors belong to this phase."""
        self.name = name
        self._file.write_text(name)


def _compile(
    kernel: JitKernel[Any], key: Any, symbol: str, arch: str, folder: Path, phase: _Phase, known_ir: str
) -> CompileFacts:
    from kernelforge.builder.compiler import compile_key

    irs: list[str] = []

    def on_traced(ir: bytes) -> None:
        irs.append(str(Digest.of(ir)))
        if irs == [known_ir]:
            _write_result(folder, {"is_known_ir": True})
            _leave()  # here, because the compiler catches what is raised
        phase.enter("compile")

    compiled = compile_key(
        kernel,
        key,
        entry=symbol,
        arch=arch,
        folder=folder,
        on_traced=on_traced,
        on_compiled=lambda: phase.enter("export"),
    )
    phase.enter("check")
    cubin = read_cubin(compiled.cubin)
    if cubin.arch != arch:
        raise ToolchainError(f"the compiler made {cubin.arch} code for {arch}", hint="run kernelforge doctor")
    symbols = object_symbols(compiled.object)
    if symbols.entries != {symbol}:
        raise ToolchainError(
            f"the object offers {sorted(symbols.entries)}, not {symbol}", hint="run kernelforge doctor"
        )
    (folder / OBJECT_FILE).write_bytes(compiled.object)
    (folder / CUBIN_FILE).write_bytes(compiled.cubin)
    return CompileFacts(
        ptxas=cubin.ptxas,
        registers=cubin.registers,
        spill_bytes=cubin.spill_bytes,
        static_shared_memory_bytes=cubin.static_shared_memory_bytes,
        code_bytes=cubin.code_bytes,
        ptx_digest=str(Digest.of(compiled.ptx)),
        # Of a kernel that has the compiler run more than once, the first module does not say all.
        ir_digest=irs[0] if len(irs) == 1 else "",
        undefined=tuple(sorted(symbols.undefined)),
    )


def _into_log(folder: Path) -> None:
    """Send all output, the compiler's native one included, to the log; work inside the job's folder."""
    log = os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    faulthandler.enable()  # a crash in native code leaves its Python lines in the log
    os.chdir(folder)


def _write_result(folder: Path, result: dict[str, Any]) -> None:
    unfinished = folder / f"{RESULT_FILE}.part"
    unfinished.write_text(json.dumps(result))
    unfinished.replace(folder / RESULT_FILE)


def _message(error: BaseException) -> str:
    if isinstance(error, KernelForgeError):
        return str(error)
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def _source(error: BaseException) -> str:
    """``file:line`` of the innermost frame that is neither the compiler's nor ours: the kernel's own line."""
    deepest = ""
    cause: BaseException | None = error
    while cause is not None and not deepest:
        for frame in traceback.extract_tb(cause.__traceback__):
            if _is_kernel_code(frame.filename):
                deepest = f"{frame.filename}:{frame.lineno}"
        cause = cause.__cause__ or cause.__context__
    return deepest


def _is_kernel_code(filename: str) -> bool:
    foreign = ("nvidia_cutlass_dsl", f"{os.sep}lib{os.sep}python", "<")
    return not filename.startswith(_OWN_FOLDER) and not any(part in filename for part in foreign)
