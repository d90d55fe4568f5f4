"""The undocumented parts of the compiler that the builder relies on: each is held here."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from kernelforge.builder.cubin import read_cubin
from kernelforge.builder.job import CUBIN_FILE, OBJECT_FILE
from kernelforge.device import DeviceProfile
from kernelforge.errors import ToolchainError
from tests.builder.compiling import compile_all, compile_plainly, requests_of

# The instruction that ends every use of AVX's wide registers in compiled code.
_VZEROUPPER = bytes.fromhex("c5f877")


@pytest.mark.slow
def test_skipping_the_host_jit_gives_the_bytes_of_the_plain_path(tmp_path: Path, h200: DeviceProfile) -> None:
    finished = compile_all(requests_of("Copy"), [h200], tmp_path)["Copy", "sm_90a"]
    plain = compile_plainly(tmp_path, finished.job.symbol, "pinned")
    assert plain == (finished.folder / OBJECT_FILE).read_bytes()
    assert (finished.folder / CUBIN_FILE).read_bytes() in plain


@pytest.mark.slow
def test_host_code_is_for_every_processor_not_for_the_builders(tmp_path: Path, h200: DeviceProfile) -> None:
    """By itself the compiler uses AVX on a processor that has it: other bytes on other runners, and an illegal
    instruction in pods with an older one."""
    finished = compile_all(requests_of("Copy"), [h200], tmp_path)["Copy", "sm_90a"]
    assert _VZEROUPPER not in _host_code((finished.folder / OBJECT_FILE).read_bytes())
    if " avx2 " in Path("/proc/cpuinfo").read_text():
        assert _VZEROUPPER in _host_code(compile_plainly(tmp_path, finished.job.symbol, "as it is"))


def _host_code(data: bytes) -> bytes:
    sections = ELFFile(io.BytesIO(data)).iter_sections()
    code = b"".join(section.data() for section in sections if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)
    assert code
    return code


@pytest.mark.parametrize("image", [b"", b"no image", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(57)])
def test_what_is_no_image_is_refused(image: bytes) -> None:
    with pytest.raises(ToolchainError, match="cannot be read"):
        read_cubin(image)
