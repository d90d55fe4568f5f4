"""What a host object or a linked pack defines and what it still needs, read with pyelftools."""

from __future__ import annotations

import io
from dataclasses import dataclass

from kernelforge.errors import ToolchainError

ENTRY_PREFIX = "__tvm_ffi_"


@dataclass(frozen=True)
class Symbols:
    """Names of an ELF file; ``entries`` are the callables, without tvm-ffi's prefix."""

    entries: frozenset[str]
    undefined: frozenset[str]


def object_symbols(data: bytes) -> Symbols:
    """Symbols of a relocatable object."""
    return _symbols(data, ".symtab")


def library_symbols(data: bytes) -> Symbols:
    """Dynamic symbols of a shared library: what it offers to and needs from the process that loads it."""
    return _symbols(data, ".dynsym")


def _symbols(data: bytes, table: str) -> Symbols:
    from elftools.common.exceptions import ELFError

    try:
        return _read(data, table)
    except (ELFError, OverflowError, ValueError) as error:  # what a damaged file may raise
        hint = "the compiler or linker wrote a damaged file"
        raise ToolchainError(f"not an ELF file ({error})", hint=hint) from error


def _read(data: bytes, table: str) -> Symbols:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    section = ELFFile(io.BytesIO(data)).get_section_by_name(table)
    if not isinstance(section, SymbolTableSection):
        raise ToolchainError(f"the file has no {table}", hint="the compiler or linker wrote an incomplete file")
    entries, undefined = set(), set()
    for symbol in section.iter_symbols():
        if symbol.name and symbol["st_shndx"] == "SHN_UNDEF":
            undefined.add(symbol.name)
        elif symbol.name.startswith(ENTRY_PREFIX) and symbol["st_info"]["bind"] == "STB_GLOBAL":
            entries.add(symbol.name.removeprefix(ENTRY_PREFIX))
    # The assembler's name for the offset table: the linker provides it.
    return Symbols(frozenset(entries), frozenset(undefined - {"_GLOBAL_OFFSET_TABLE_"}))
