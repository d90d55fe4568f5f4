"""A6: objects of the compiler's two call interfaces look alike, and only one of them can be called through tvm-ffi."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kernelforge.builder.compiler import ARCH_VARIABLE
from kernelforge.builder.link import find_linker
from kernelforge.contract import kernel_name, symbol_of
from kernelforge.descriptor import Descriptor
from kernelforge.errors import PackCorrupt, ToolchainError
from tests.loader.conftest import Release
from tests.loader.fake_release import KEYS, TARGET
from tests.loader.python_process import ROOT
from tests.loader.scale import Scale

pytestmark = pytest.mark.slow
SYMBOL = symbol_of(kernel_name(Scale), KEYS[0])


@pytest.fixture(scope="module")
def c_object(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("c-interface")
    command = [sys.executable, "-m", "tests.loader.c_interface", str(folder), SYMBOL]
    environment = {**os.environ, ARCH_VARIABLE: TARGET.arch}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return (folder / "kernel.o").read_bytes()


def test_the_linker_refuses_an_object_without_the_entry(c_object: bytes, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=SYMBOL):
        find_linker(TARGET).link([(SYMBOL, c_object)], tmp_path)


def test_a_pack_with_the_other_interface_is_refused_with_expected_and_actual(
    release: Release, c_object: bytes, tmp_path: Path
) -> None:
    """Somebody linked it by hand. The lockfile says tvm-ffi; called as such it would read garbage as arguments."""
    (tmp_path / "kernel.o").write_bytes(c_object)
    archive = find_linker(TARGET).runtime
    command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-o", "pack.so", "kernel.o", str(archive)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    pack = (tmp_path / "pack.so").read_bytes()
    locked = replace(release.lock.packs["h200-sxm"], blob=Descriptor.raw(pack), undefined=())
    lock = replace(release.lock, entries=release.lock.entries[:1], packs={"h200-sxm": locked})
    with pytest.raises(PackCorrupt, match=f"call interface of {SYMBOL} is expected to be tvm-ffi and is C"):
        release.load(lock, pack=tmp_path / "pack.so")


def test_a_pack_with_neither_is_not_called_either(release: Release) -> None:
    """The same words for every absent symbol would send its reader the wrong way."""
    lock = replace(release.lock, entries=(replace(release.lock.entries[0], symbol="kf_Absent"),))
    with pytest.raises(PackCorrupt, match="lacks 1 of the lockfile's symbols: kf_Absent"):
        release.load(lock)
