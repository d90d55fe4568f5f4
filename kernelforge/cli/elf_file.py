"""What an ELF file is and holds: an object, a linked library or a device image, and the device images inside it.

An image inside an object is the compiler's cubin as it was, in a read-only section, with nothing around it that gives
its length; so it is found by its own ELF header and measured by it. Read with pyelftools, without a CUDA toolkit.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernelforge.builder.host_object import ENTRY_PREFIX
from kernelforge.builder.preload_code import PRELOAD_ENTRY
from kernelforge.errors import InputError, ToolchainError

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
_MACHINE_CUDA = 190
_MACHINE_AT = 18
_HEADER_BYTES = 64
_KINDS = {"ET_REL": "object", "ET_DYN": "library"}
_ALLOCATED = 0x2  # SHF_ALLOC: part of what is loaded
# The assembler's name for a table that the linker makes: nobody provides it.
_OFFSET_TABLE = "_GLOBAL_OFFSET_TABLE_"


@dataclass(frozen=True)
class ElfFile:
    """``kind``: object, library or cubin; a cubin is its own only image and has no symbols here.

    ``exported`` are all symbols that the file offers; ``entries`` are the callables among them.
    """

    kind: str
    needed: tuple[str, ...]
    exported: tuple[str, ...]
    undefined: tuple[str, ...]
    images: tuple[bytes, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        """Symbols of kernels, as lockfiles spell them."""
        names = (name.removeprefix(ENTRY_PREFIX) for name in self.exported if name.startswith(ENTRY_PREFIX))
        return tuple(name for name in names if name != PRELOAD_ENTRY)


def read_elf(data: bytes, *, where: str) -> ElfFile:
    """Take an ELF file apart; ``InputError`` at ``where`` if it is none that a build makes.

    ``ToolchainError`` where pyelftools, which comes with ``kernelforge[build]``, is not installed.
    """
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        hint = "pip install 'kernelforge[build]'"
        raise ToolchainError("objects are read with pyelftools, which is not installed", hint=hint) from error
    try:
        elf = ELFFile(io.BytesIO(data))
        if elf["e_machine"] == "EM_CUDA":
            return ElfFile("cubin", (), (), (), (data,))
        if elf["e_type"] not in _KINDS:
            raise _refused(f"an ELF file of type {elf['e_type']}", where)
        table = elf.get_section_by_name(".symtab" if elf["e_type"] == "ET_REL" else ".dynsym")
        return ElfFile(
            kind=_KINDS[elf["e_type"]],
            needed=tuple(_needed(elf)),
            exported=tuple(sorted(_names(table, is_defined=True))),
            undefined=tuple(sorted(_names(table, is_defined=False))),
            images=tuple(_images(elf)),
        )
    except (ELFError, struct.error) as error:
        raise _refused(f"not a readable ELF file ({error})", where) from error


def _needed(elf: Any) -> Iterator[str]:
    dynamic = elf.get_section_by_name(".dynamic")
    if dynamic is not None:
        yield from (tag.needed for tag in dynamic.iter_tags("DT_NEEDED"))


def _names(table: Any, *, is_defined: bool) -> Iterator[str]:
    """Global symbols that the file offers, or those that it needs."""
    for symbol in table.iter_symbols() if table is not None else ():
        if (
            symbol.name not in ("", _OFFSET_TABLE)
            and symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK")
            and symbol["st_other"]["visibility"] == "STV_DEFAULT"
            and (symbol["st_shndx"] != "SHN_UNDEF") is is_defined
        ):
            yield symbol.name


def _images(elf: Any) -> Iterator[bytes]:
    for section in elf.iter_sections():
        if section["sh_type"] == "SHT_PROGBITS" and section["sh_flags"] & _ALLOCATED:
            yield from _images_in(section.data())


def _images_in(data: bytes) -> Iterator[bytes]:
    start = data.find(_MAGIC)
    while start >= 0:
        size_bytes = _image_size(data, start)
        if size_bytes:
            yield data[start : start + size_bytes]
        start = data.find(_MAGIC, start + max(size_bytes, 1))


def _image_size(data: bytes, start: int) -> int:
    """Length of the device image at ``start``: where the last of its tables and sections ends; 0 if it is none."""
    if start + _HEADER_BYTES > len(data):
        return 0
    (machine,) = struct.unpack_from("<H", data, start + _MACHINE_AT)
    if machine != _MACHINE_CUDA:
        return 0
    programs_at, sections_at = struct.unpack_from("<QQ", data, start + 32)
    program_bytes, programs, section_bytes, sections = struct.unpack_from("<HHHH", data, start + 54)
    size_bytes = max(programs_at + program_bytes * programs, sections_at + section_bytes * sections)
    return size_bytes if start + size_bytes <= len(data) else 0


def _refused(problem: str, where: str) -> InputError:
    return InputError(problem, hint="give a lockfile, or a .o, .so or .cubin file of a build", where=where)
