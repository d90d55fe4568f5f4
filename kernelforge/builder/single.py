"""One key -> one pack: the compile function that a pod with a compiler in its image hands to the loader.

    kernelforge.load(..., policy="jit", compile_missing="kernelforge.builder.single:compile_missing")

The same template, checks and linker as a build's, for a single key that arrives in its JSON form. Knows neither stores
nor the loader.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kernelforge.builder.job import LIMIT_MEMORY_BYTES, OBJECT_FILE, CompileJob, Finished, Limits, SentKey, Setup
from kernelforge.builder.link import find_linker
from kernelforge.builder.pool import Pool
from kernelforge.errors import ToolchainError
from kernelforge.jit_request import JitAnswer, JitRequest


def compile_missing(request: JitRequest) -> JitAnswer:
    """Compile and link; ``ToolchainError`` names kernel, phase and the line of the kernel's source when that fails."""
    folder = Path(request.folder)
    linker = find_linker(request.target)
    compiled = _compile(request, folder)
    work = folder / "pack"
    work.mkdir()
    linked = linker.link([(request.symbol, (compiled.folder / OBJECT_FILE).read_bytes())], work)
    pack = folder / "pack.so"
    pack.write_bytes(linked.library)
    return JitAnswer(str(pack), linker.identity, linked.needed, linked.undefined)


def _compile(request: JitRequest, folder: Path) -> Finished:
    key = SentKey(request.kernel, request.compile_key)
    limits = Limits(request.limit_s, LIMIT_MEMORY_BYTES)
    setup = Setup(request.target, tuple(sys.path), (), (), limits, sent_keys=(key,))
    job = CompileJob(0, request.kernel, request.symbol, request.target)
    with Pool([setup], workers=1, folder=folder) as pool:
        (finished,) = pool.run([job])
    failure = finished.failure
    if failure is not None:
        source = f" at {failure.source}" if failure.source else ""
        raise ToolchainError(
            f"{failure.phase} of {request.kernel} failed{source}: {failure.message}",
            hint="build the key in CI: its report has the whole log",
            where=request.kernel,
        )
    return finished
