"""Compile functions for the policy 'jit', as a caller may write them; they run in fresh processes.

What they make was made before: the key's ``dtype`` names a folder with ``pack.so``. Each leaves a line in ``compiles``
there, which is how a test counts them.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from kernelforge.contract import kernel_name_of_key, symbol_of
from kernelforge.errors import ContractError
from kernelforge.jit_request import JitAnswer, JitRequest
from tests.loader.fake_release import compile_pack
from tests.loader.scale import Scale

NEEDED, UNDEFINED = ("libtvm_ffi.so",), ("TVMFFIErrorSetRaisedFromCStr",)


def prepared_key(folder: Path, *, head_dim: int = 96, kernel: type = Scale, arch: str = "sm_90a") -> Scale.CompileKey:
    """A key that no lockfile of the tests has, with its pack ready; the pack's entry returns its argument."""
    folder.mkdir(parents=True, exist_ok=True)
    key = kernel.CompileKey(head_dim=head_dim, dtype=str(folder))
    compile_pack(folder, [symbol_of(kernel_name_of_key(key), key)], arch=arch)
    return key


def compiles(folder: Path) -> int:
    """How often a function below was asked for the key of this folder."""
    trace = folder / "compiles"
    return len(trace.read_text().splitlines()) if trace.exists() else 0


def prepared(request: JitRequest) -> JitAnswer:
    """The pack that waits in the key's folder."""
    folder = _trace(request)
    print("a compiler that prints to stdout")  # noqa: T201
    pack = Path(request.folder, "answer.so")
    pack.write_bytes((folder / "pack.so").read_bytes())
    return JitAnswer(str(pack), "lld", NEEDED, UNDEFINED)


def slow(request: JitRequest) -> JitAnswer:
    """Takes so long that whoever asks meanwhile has to wait."""
    time.sleep(0.5)
    return prepared(request)


def fails(request: JitRequest) -> JitAnswer:
    _trace(request)
    raise ContractError("width 96 is not supported", hint="use another width", where="a kernel")


def raises(request: JitRequest) -> JitAnswer:
    _trace(request)
    raise ZeroDivisionError("division by zero in a kernel")


def dies(request: JitRequest) -> JitAnswer:
    _trace(request)
    os.write(2, b"the last words of a compiler\n")
    os.abort()


def hangs(request: JitRequest) -> JitAnswer:
    _trace(request)
    time.sleep(3600)
    raise AssertionError("nobody waits that long")


def answers_nonsense(request: JitRequest) -> str:
    _trace(request)
    return Nonsense()  # type: ignore[return-value]


class Nonsense:
    def to_json(self) -> dict[str, object]:
        return {"pack": 7}


def tells_its_environment(request: JitRequest) -> JitAnswer:
    (_trace(request) / "environment.json").write_text(json.dumps(dict(os.environ)))
    return prepared(request)


def _trace(request: JitRequest) -> Path:
    folder = Path(request.compile_key["dtype"])
    with open(folder / "compiles", "a") as trace:
        trace.write(f"{request.symbol}\n")
    return folder
