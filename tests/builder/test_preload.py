"""The preload function in objects and packs: there, and nothing else is changed by it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kernelforge.builder.job import CUBIN_FILE, OBJECT_FILE, Finished
from kernelforge.builder.link import find_linker
from kernelforge.builder.preload_code import preload_source, preload_symbol
from kernelforge.device import DeviceProfile
from kernelforge.errors import ToolchainError
from kernelforge.target import Target
from tests.builder.compiling import compile_all, compile_plainly, requests_of
from tests.loader.python_process import run_python

TARGET = Target("sm_90a")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    from kernelforge.device import Fact

    h200 = DeviceProfile("h200-test", "sm_90a", {"num_sms": Fact(132, "made up for a test")})
    return compile_all(requests_of("Copy"), [h200], tmp_path_factory.mktemp("built"))["Copy", "sm_90a"]


@pytest.fixture(scope="module")
def plain(built: Finished, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The same kernel as the compiler itself makes it."""
    return compile_plainly(tmp_path_factory.mktemp("plain"), built.job.symbol, "as it is")


def global_symbols(data: bytes) -> set[str]:
    table = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
    return {symbol.name for symbol in table.iter_symbols() if symbol["st_info"]["bind"] == "STB_GLOBAL"}


@pytest.mark.slow
def test_the_device_image_is_the_compilers(built: Finished, plain: bytes) -> None:
    """The addition is host code: a device image that it changed would be another kernel."""
    image = (built.folder / CUBIN_FILE).read_bytes()
    assert plain.count(image) == 1
    assert (built.folder / OBJECT_FILE).read_bytes().count(image) == 1


@pytest.mark.slow
def test_an_object_has_one_symbol_more(built: Finished, plain: bytes) -> None:
    added = global_symbols((built.folder / OBJECT_FILE).read_bytes()) - global_symbols(plain)
    assert added == {preload_symbol(built.job.symbol)}


@pytest.mark.slow
def test_an_object_without_it_does_not_become_a_pack(built: Finished, plain: bytes, tmp_path: Path) -> None:
    """A linker makes a shared library all the same, and its pods would refuse it one by one."""
    with pytest.raises(ToolchainError, match=preload_symbol(built.job.symbol)):
        find_linker(TARGET).link([(built.job.symbol, plain)], tmp_path)


@pytest.mark.slow
def test_an_unknown_way_to_initialise_is_an_error() -> None:
    """Another compiler version that does it elsewhere must not give objects that preload nothing."""
    code = """
import sys, types
sys.modules["torch"] = None
from cutlass._mlir import ir
from kernelforge.builder.preload_code import add_preload
from kernelforge.errors import ToolchainError
with ir.Context():
    module = ir.Module.parse("llvm.func @cuda_init(!llvm.ptr) -> i32")
try:
    add_preload(types.SimpleNamespace(ir_module=module))
except ToolchainError as error:
    print(error)
"""
    assert "initialises its device code in 0 places" in run_python(code)


def test_the_table_has_one_order() -> None:
    """A pack's bytes must not depend on the order in which its keys were built."""
    assert preload_source(["kf_b", "kf_a"]) == preload_source(["kf_a", "kf_b"])
    assert preload_source(["kf_a"]) != preload_source(["kf_b"])
