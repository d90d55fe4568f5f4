"""Device images without a compiler: the parts of a cubin that kernelforge reads, written by hand."""

from __future__ import annotations

import struct

_CUDA = 190
_EXECUTABLE = 2
_PROGBITS, _STRTAB = 1, 3
_SECTION_BYTES = 64
_HEADER_BYTES = 64
_REGISTER_COUNT, _FRAME_SIZE = 0x2F, 0x11


def device_image(arch: str, *, registers: int = 24, spill_bytes: int = 0, code: bytes = b"\0" * 64) -> bytes:
    """An ELF file for CUDA with ptxas's note, register count, frame size and one kernel's code."""
    note = f"ptxas Cuda compilation tools, release 13.1, V13.1.0 -O 3 -arch {arch} -m 64 ".encode()
    attributes = _attribute(_REGISTER_COUNT, registers) + _attribute(_FRAME_SIZE, spill_bytes)
    sections = {".note.nv.tkinfo": note, ".nv.info": attributes, ".text.kernel": code}
    return _elf(sections)


def _attribute(number: int, value: int) -> bytes:
    return struct.pack("<BBHII", 4, number, 8, 1, value)


def _elf(sections: dict[str, bytes]) -> bytes:
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*sections, ".shstrtab"))
    contents = {**sections, ".shstrtab": names}
    body, headers = b"", struct.pack("<IIQQQQIIQQ", *[0] * 10)
    for name, data in contents.items():
        kind = _STRTAB if name == ".shstrtab" else _PROGBITS
        at = _HEADER_BYTES + len(body)
        headers += struct.pack("<IIQQQQIIQQ", names.index(name.encode()), kind, 0, 0, at, len(data), 0, 0, 1, 0)
        body += data
    sections_at = _HEADER_BYTES + len(body)
    count = len(contents) + 1
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = identity + struct.pack(
        *("<HHIQQQIHHHHHH", _EXECUTABLE, _CUDA, 1, 0, 0, sections_at, 0),
        *(_HEADER_BYTES, 0, 0, _SECTION_BYTES, count, count - 1),
    )
    return header + body + headers
