"""Facts that only the device image knows: its real architecture, its compiler, registers, memory, spills.

Read with pyelftools from the bytes, so that no CUDA toolkit is needed. The attribute numbers are those of NVIDIA's
``.nv.info`` sections as ``cuobjdump`` prints them: EIATTR_FRAME_SIZE 0x11, EIATTR_REGCOUNT 0x2f.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kernelforge.errors import ToolchainError

_FRAME_SIZE = 0x11
_REGISTER_COUNT = 0x2F
_FORM_SIZED = 4
_FORM_BYTES = 4
# ptxas 12.9 writes no tool note for sm_80 to sm_90a, but the ELF flags of those images end in the number
# (0x5a0d5a: 0x5a = 90) and have this bit for the suffix `a`; seen on images of sm_80, sm_90 and sm_90a.
_ACCELERATED_BIT = 0x800


@dataclass(frozen=True)
class CubinFacts:
    """``arch`` is what ptxas was told; sizes are in bytes; the largest value over the image's kernels counts.

    ``spill_bytes`` is the stack frame of one thread: local memory, where spilled registers live. Shared memory is as
    ptxas counts it: from sm_90 on a kernel that uses any also has the 1 KiB that CUDA reserves in each block.
    """

    arch: str
    ptxas: str
    registers: int
    spill_bytes: int
    static_shared_memory_bytes: int
    code_bytes: int


def read_cubin(image: bytes) -> CubinFacts:
    """Facts of a device image; raises ``ToolchainError`` when it is none or does not say what made it."""
    from elftools.common.exceptions import ELFError

    try:
        return _read(image)
    except (ELFError, OverflowError, ValueError, struct.error) as error:  # what a damaged image may raise
        raise _unreadable(f"not an ELF image ({error})") from error


def _read(image: bytes) -> CubinFacts:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(image))
    sections = {section.name: section.data() for section in elf.iter_sections() if section["sh_type"] != "SHT_NOBITS"}
    shared = [section["sh_size"] for section in elf.iter_sections() if _is_kernel_shared(section.name)]
    arch, ptxas = _tool(sections.get(".note.nv.tkinfo", b""), elf.header["e_flags"])
    attributes = list(_attributes(sections.get(".nv.info", b"")))
    return CubinFacts(
        arch=arch,
        ptxas=ptxas,
        registers=_largest(attributes, _REGISTER_COUNT),
        spill_bytes=_largest(attributes, _FRAME_SIZE),
        static_shared_memory_bytes=max(shared, default=0),
        code_bytes=sum(len(data) for name, data in sections.items() if name.startswith(".text.")),
    )


def _is_kernel_shared(section: str) -> bool:
    # `.nv.shared.reserved.*` is the driver's, also in kernels that use none.
    return section.startswith(".nv.shared.") and not section.startswith(".nv.shared.reserved.")


def _tool(note: bytes, flags: int) -> tuple[str, str]:
    """Architecture and version from ptxas's note: its options are the only place that keeps the suffix."""
    text = note.decode("latin-1")
    arch = re.search(r"-arch (sm_\w+)", text)
    version = re.search(r"\bV(\d+\.\d+\.\d+)", text)
    if arch and version:
        return arch.group(1), version.group(1)
    if note:
        raise _unreadable("its tool note names no architecture")
    number, accelerated = flags & 0xFF, flags & _ACCELERATED_BIT
    if not number:
        raise _unreadable("it has no tool note and no architecture in its ELF flags")
    return f"sm_{number}{'a' if accelerated else ''}", "12"


def _attributes(section: bytes) -> Iterator[tuple[int, bytes]]:
    """(attribute, payload) of an ``.nv.info`` section; only one of the forms carries a payload behind its size."""
    offset = 0
    while offset + _FORM_BYTES <= len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, offset)
        offset += _FORM_BYTES
        if form == _FORM_SIZED:
            yield attribute, section[offset : offset + size]
            offset += size


def _largest(attributes: list[tuple[int, bytes]], wanted: int) -> int:
    # Payload: symbol index, then the value.
    return max(
        (struct.unpack("<II", payload)[1] for attribute, payload in attributes if attribute == wanted), default=0
    )


def _unreadable(why: str) -> ToolchainError:
    return ToolchainError(f"the compiled image cannot be read: {why}", hint="run kernelforge doctor, and report this")
