"""ELF files taken apart: symbols, needed libraries, and the device images inside."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelforge.cli.elf_file import read_elf
from kernelforge.errors import InputError
from tests.cli.device_image import device_image
from tests.cli.released import object_file

IMAGE = device_image("sm_90a", code=b"\x11" * 400)


def test_the_image_in_an_object_is_found_to_the_byte() -> None:
    file = read_elf(object_file("first", IMAGE), where="test")
    assert file.kind == "object"
    assert file.images == (IMAGE,)
    assert file.entries == ("first",)
    assert "_GLOBAL_OFFSET_TABLE_" not in file.undefined


def test_an_image_is_its_own_image() -> None:
    file = read_elf(IMAGE, where="test")
    assert (file.kind, file.images, file.exported) == ("cubin", (IMAGE,), ())


def test_images_that_follow_each_other_are_told_apart() -> None:
    other = device_image("sm_100a", code=b"\x22" * 64)
    assert read_elf(object_file("first", IMAGE + b"\0" * 7 + other), where="test").images == (IMAGE, other)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x7fELF\x02\x01", id="magic alone"),
        pytest.param(b"\x7fELF\x02\x01" + b"\0" * 200, id="no machine"),
        pytest.param(IMAGE[:-1], id="cut short"),
        pytest.param(IMAGE[:40] + b"\xff" * 8 + IMAGE[48:], id="tables beyond the end"),
    ],
)
def test_bytes_that_only_begin_like_an_image_are_none(data: bytes) -> None:
    assert read_elf(object_file("first", data), where="test").images == ()


def test_what_a_library_needs_and_offers(tmp_path: Path) -> None:
    """Hidden symbols are no offers: a pack must not export what it links in."""
    source = tmp_path / "library.c"
    source.write_text(
        "extern int somewhere_else(void);\n"
        "int __tvm_ffi_first(void) { return somewhere_else(); }\n"
        'int helper(void) { return 2; }\n__attribute__((visibility("hidden"))) int secret(void) { return 1; }\n'
    )
    library = tmp_path / "library.so"
    command = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,library.so"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True, capture_output=True)
    (tmp_path / "user.c").write_text("extern int helper(void);\nint __tvm_ffi_user(void) { return helper(); }\n")
    user = tmp_path / "user.so"
    subprocess.run([*command[:-1], str(tmp_path / "user.c"), str(library), "-o", str(user)], check=True)
    file = read_elf(library.read_bytes(), where="test")
    assert file.kind == "library"
    assert {"__tvm_ffi_first", "helper"} <= set(file.exported)
    assert "secret" not in file.exported
    assert file.entries == ("first",)
    assert "somewhere_else" in file.undefined
    assert "library.so" in read_elf(user.read_bytes(), where="test").needed


@pytest.mark.parametrize("size", [0, 3, 16, 63, 64, 200])
def test_truncated_files_are_refused_with_their_name(size: int) -> None:
    data = object_file("first", IMAGE)[:size]
    with pytest.raises(InputError, match="broken file"):
        read_elf(data, where="broken file")


def test_a_program_is_no_part_of_a_build() -> None:
    program = shutil.which("true")
    assert program is not None
    data = bytearray(Path(program).read_bytes())
    data[16:18] = (2).to_bytes(2, "little")  # ET_EXEC, whatever this system builds
    with pytest.raises(InputError, match="ET_EXEC"):
        read_elf(bytes(data), where="true")
