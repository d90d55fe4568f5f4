"""The life of one forked child: compile a few keys of one kernel, check what came out, leave files and results, exit.

Whatever a kernel does here (raise, print, change the folder or the environment, abort, hang) ends with this process,
and a key that failed or changed something is the last one in it. Only files leave it; ``result.json`` is written last
and by rename, so a child that died left no result for the key that was under way, but the name of its phase.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class ChildJob:
    """One key and where its files go. ``known_ir``: stop after a trace that gives the IR with this digest."""

    kernel: JitKernel[Any]
    key: Any
    number: int
    symbol: str
    folder: str
    known_ir: str = ""


def run_child(jobs: Sequence[ChildJob], *, arch: str, told: int) -> NoReturn:
    """Do the jobs one after the other and exit; the descriptor ``told`` is told of each that is done."""
    try:
        _limit_damage()
        for job in jobs:
            if not _do(job, arch, told):
                break
        _tell(told, {"left": True})
    finally:
        _leave()


def _do(job: ChildJob, arch: str, told: int) -> bool:
    """Leave the result of one job; whether this process is as it was before, so that it may do another one."""
    folder, before = Path(job.folder), _spent_seconds()
    phase = _Phase(folder)
    try:
        _into_log(folder)
        state = _state()
        result: dict[str, Any] = {"facts": _compile(job, arch, folder, phase).to_json()}
    except _KnownIr:
        result = {"is_known_ir": True}
    except BaseException as error:  # noqa: BLE001 (also SystemExit: a kernel that exits is a failed kernel)
        result = {"failure": {"phase": phase.name, "message": _message(error), "source": _source(error)}}
        traceback.print_exc()
    _write_result(folder, result)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # KiB on Linux
    done = {"number": job.number, "seconds": _spent_seconds() - before, "peak_memory_bytes": peak_bytes}
    is_as_before = "failure" not in result and _state() == state
    _tell(told, {"done": done})
    return is_as_before


class _KnownIr(BaseException):
    """Ends a compile after its trace; no ``Exception``, because the compiler catches those."""


def _state() -> tuple[Any, ...]:
    """What a kernel may have changed for the next one."""
    return dict(os.environ), os.getcwd(), list(sys.path), sys.stdout, sys.stderr


def _spent_seconds() -> float:
    """CPU seconds of this process and of those that it waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _tell(told: int, message: dict[str, Any]) -> None:
    os.write(told, json.dumps({"pid": os.getpid(), **message}).encode() + b"\n")  # short enough to be written at once


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


def _compile(job: ChildJob, arch: str, folder: Path, phase: _Phase) -> CompileFacts:
    from kernelforge.builder.compiler import compile_key

    irs: list[str] = []

    def on_traced(ir: bytes) -> None:
        irs.append(str(Digest.of(ir)))
        if irs == [job.known_ir]:
            raise _KnownIr
        phase.enter("compile")

    compiled = compile_key(
        job.kernel,
        job.key,
        entry=job.symbol,
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
    if symbols.entries != {job.symbol}:
        raise ToolchainError(
            f"the object offers {sorted(symbols.entries)}, not {job.symbol}", hint="run kernelforge doctor"
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
