"""Runs a compile function in a Python process of its own and reads its answer; the other end is ``jit_process``.

The process gets an environment made here: variables of the compiler and of kernel libraries change code, and none of
them is part of what a result is found by. It sees no GPU.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from kernelforge.errors import InputError, ToolchainError
from kernelforge.jit_request import JitAnswer, JitRequest

# Start and end of the process, and linking, beside the compile itself.
_AROUND_S = 30.0
_LOG_TAIL_BYTES = 2000


def ask_fresh_process(function: str, request: JitRequest) -> JitAnswer:
    """Answer of ``function`` (``module:function``) to ``request``.

    Raises ``ToolchainError`` with what it said, when it fails, dies or takes longer than the request allows.
    """
    log = Path(request.folder, "log.txt")
    message = {"function": function, "sys_path": sys.path, "request": request.to_json()}
    output = _run(json.dumps(message).encode(), log, request)
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError as error:
        tail = log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip()
        raise _failed(request, f"the process died and left no answer; its last words: {tail!r}") from error
    if "error" in answer:
        said = answer["error"]
        raise _failed(request, f"{said['where']}: {said['problem']}", said["hint"])
    try:
        return JitAnswer.from_json(answer["answer"])
    except InputError as error:
        raise _failed(request, f"{function}: {error.problem}", error.hint) from error


def _run(message: bytes, log: Path, request: JitRequest) -> bytes:
    isolated = "-P" if sys.version_info >= (3, 11) else "-u"  # no module of the working folder
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, isolated, "-m", "kernelforge.loader.jit_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(request.folder),
            start_new_session=True,
        )
    with process:
        try:
            return process.communicate(message, timeout=request.limit_s + _AROUND_S)[0]
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise _failed(request, f"took longer than the limit of {request.limit_s:g} s") from None
            raise


def _environment(folder: str) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "HOME": folder,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "CUDA_VISIBLE_DEVICES": "",
    }


def _failed(request: JitRequest, why: str, hint: str = "build the key in CI, where its log is kept") -> ToolchainError:
    return ToolchainError(f"{request.symbol} could not be compiled here: {why}", hint=hint, where=request.kernel)
