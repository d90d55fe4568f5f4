"""The process in which a pod compiles: ``python -m kernelforge.loader.jit_process``, started by ``jit``.

The serving process has CUDA up and threads running, so it can neither fork nor host a compiler. One request comes on
stdin, as JSON, and one answer goes to what was stdout at the start; whatever the compile prints goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from kernelforge.errors import KernelForgeError, UsageError
from kernelforge.jit_request import JitAnswer, JitRequest


def main() -> None:
    """Answer one request: ``{"function", "sys_path", "request"}`` -> ``{"answer"}`` or ``{"error"}``."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    message = json.loads(sys.stdin.buffer.read())
    sys.path[:] = message["sys_path"]
    with answers:
        answers.write(json.dumps(_answer(message["function"], message["request"])).encode())


def _answer(function: str, request: object) -> dict[str, Any]:
    try:
        return {"answer": _imported(function)(JitRequest.from_json(request)).to_json()}
    except KernelForgeError as error:
        return {"error": {"problem": error.problem, "hint": error.hint, "where": error.where}}
    except Exception as error:  # noqa: BLE001 (a compile function is foreign code; the pod must be told)
        traceback.print_exc()
        hint = f"call {function} in a Python shell"
        return {"error": {"problem": f"{type(error).__name__}: {error}", "hint": hint, "where": function}}


def _imported(function: str) -> Callable[[JitRequest], JitAnswer]:
    module, _, name = function.partition(":")
    found: Any = getattr(importlib.import_module(module), name, None)
    if not callable(found):
        raise UsageError(f"{module} has no function {name!r}", hint="compile_missing='module:function'", where=function)
    return found  # type: ignore[no-any-return]  # its answer is checked by whoever asked


if __name__ == "__main__":
    main()
