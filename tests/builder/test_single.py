"""One key into one pack, as a pod with a compiler does it; the real compiler and linker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelforge.builder.host_object import library_symbols
from kernelforge.builder.job import OBJECT_FILE
from kernelforge.builder.link import find_linker
from kernelforge.builder.single import compile_missing
from kernelforge.contract import symbol_of
from kernelforge.device import DeviceProfile
from kernelforge.encoding import fields_json
from kernelforge.errors import ToolchainError
from kernelforge.jit_request import JitRequest
from kernelforge.target import Target
from tests.builder.compiling import compile_all, requests_of
from tests.kernel_family import Copy, RaisesWhileTracing

pytestmark = pytest.mark.slow


def request_for(key: object, kernel: str, folder: Path, **changes: object) -> JitRequest:
    folder.mkdir(exist_ok=True)
    name = f"tests.kernel_family:{kernel}"
    form = {**fields_json(key, where="key"), **changes}
    return JitRequest(name, form, symbol_of(name, key), Target("sm_90a"), str(folder), 120.0)


def test_the_pack_is_what_a_build_would_link(tmp_path: Path, h200: DeviceProfile) -> None:
    request = request_for(Copy.CompileKey(width=32, num_sms=132), "Copy", tmp_path / "jit")
    answer = compile_missing(request)
    pack = Path(answer.pack).read_bytes()
    (tmp_path / "build").mkdir()
    (built,) = compile_all(requests_of("Copy"), [h200], tmp_path / "build").values()
    linker = find_linker(Target("sm_90a"))
    linked = linker.link([(request.symbol, (built.folder / OBJECT_FILE).read_bytes())], tmp_path / "build")
    assert pack == linked.library
    assert request.symbol in library_symbols(pack).entries
    assert (answer.linker, answer.needed, answer.undefined) == (linker.identity, linked.needed, linked.undefined)


def test_a_kernel_that_does_not_compile_names_its_line(tmp_path: Path) -> None:
    key = RaisesWhileTracing.CompileKey(width=32, num_sms=132)
    with pytest.raises(ToolchainError, match=r"trace of tests\.kernel_family:RaisesWhileTracing failed at .*\.py:\d+"):
        compile_missing(request_for(key, "RaisesWhileTracing", tmp_path / "jit"))


def test_a_key_that_cannot_be_rebuilt_says_so(tmp_path: Path) -> None:
    key = Copy.CompileKey(width=32, num_sms=132)
    with pytest.raises(ToolchainError, match=r"gone.*another version of the class"):
        compile_missing(request_for(key, "Copy", tmp_path / "jit", gone=1))
