"""The ZIP files that bundles are, of which there is exactly one for given members: written here, and read strictly.

Members are stored as they are, one behind the other from the first byte on, under equal headers but for name, size and
checksum; then the list of members, and nothing else. A reader makes every header again and compares, so whatever ZIP
has beyond that is refused without being understood: paths in comments and extra fields, compression, encryption,
links and devices, large-file records, gaps, overlaps, a local header that contradicts the list. Any tool can open what
is written. Knows no names; ``bundle`` says which are allowed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kernelforge.errors import ObjectCorrupt

#: Sizes and offsets have 32 bits, the number of members has 16.
MAX_FILE_BYTES = (1 << 32) - 1
MAX_MEMBERS = (1 << 16) - 1

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")

_MADE_BY = "signature, version made by, version needed, flags"
_COMMON = "compression, time, date, checksum, stored size, size, length of name, length of extra fields"
_LOCAL_FIELDS = tuple(f"signature, version needed, flags, {_COMMON}".split(", "))
_CENTRAL_FIELDS = tuple(
    f"{_MADE_BY}, {_COMMON}, length of comment, disk, internal attributes, mode, offset".split(", ")
)
_END_FIELDS = (
    "signature, disk, disk of the list, members on this disk, members, size of the list, offset of the list, "
    "length of comment"
)

_VERSION = 20
_MADE_ON_UNIX = 3 << 8 | _VERSION
_STORED = 0
_NO_TIME, _FIRST_DAY = 0, 0 << 9 | 1 << 5 | 1  # 1980-01-01, the first that ZIP can say
_MODE = 0o100644 << 16  # a regular file


@dataclass(frozen=True, slots=True)
class Member:
    """One file in the archive. ``offset`` is where its header starts; its bytes come behind that and the name."""

    name: str
    size_bytes: int
    crc32: int
    offset: int

    @property
    def start(self) -> int:
        """Where its bytes start."""
        return self.offset + _LOCAL.size + len(self.name)

    @property
    def end(self) -> int:
        """Where its bytes end, and the next member starts."""
        return self.start + self.size_bytes


def header_of(member: Member) -> bytes:
    """What stands before the bytes of a member."""
    return _LOCAL.pack(*_local_values(member)) + member.name.encode("ascii")


def list_of(members: Iterable[Member]) -> bytes:
    """What stands behind the bytes of the last member."""
    parts = [_CENTRAL.pack(*_central_values(member)) + member.name.encode("ascii") for member in members]
    return b"".join(parts)


def end_of(count: int, list_bytes: int, list_offset: int) -> bytes:
    """The last bytes of the file."""
    return _END.pack(*_end_values(count, list_bytes, list_offset))


def read_members(handle: int, *, where: str, allowed: Callable[[str, int], str]) -> list[Member]:
    """The members of the open file, in their order, after every byte that is not a member's was found right.

    ``allowed`` says of a name and a size what is wrong with them, or nothing; it is asked before anything is read that
    the member decides. ``ObjectCorrupt`` for any other file than ``header_of``, ``list_of`` and ``end_of`` make.
    """
    file_bytes = os.fstat(handle).st_size
    if not _END.size <= file_bytes <= MAX_FILE_BYTES:
        raise refused(f"has {file_bytes} bytes, a bundle has between {_END.size} and {MAX_FILE_BYTES}", where)
    end = _END.unpack(read_exactly(handle, file_bytes - _END.size, _END.size, where))
    count, list_bytes = end[4], end[5]
    list_offset = file_bytes - _END.size - list_bytes
    _compare("the end of the file", _END_FIELDS.split(", "), end, _end_values(count, list_bytes, list_offset), where)
    if list_offset < 0:
        raise refused(f"its list of members would have {list_bytes} bytes, the file has {file_bytes}", where)
    listed = read_exactly(handle, list_offset, list_bytes, where)
    members = list(_members(listed, where, allowed))
    if len(members) != count:
        raise refused(f"says that it has {count} members, and lists {len(members)}", where)
    if (members[-1].end if members else 0) != list_offset:
        raise refused("there are bytes between the last member and the list of members", where)
    for member in members:
        _check_header(handle, member, where)
    return members


def read_exactly(handle: int, offset: int, size_bytes: int, where: str) -> bytes:
    """These bytes of the file; ``ObjectCorrupt`` if it ends before them, ``OSError``."""
    parts, missing = [], size_bytes
    while missing:
        part = os.pread(handle, missing, offset + size_bytes - missing)
        if not part:
            raise refused("the file ends too early: somebody has shortened it", where)
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def refused(problem: str, where: str) -> ObjectCorrupt:
    """The error for a file that is no bundle, or not one that is used."""
    hint = "take the bundle from whoever made it, or make it again with 'kernelforge bundle'; nothing of it was used"
    return ObjectCorrupt(problem, hint=hint, where=where)


def _members(listed: bytes, where: str, allowed: Callable[[str, int], str]) -> Iterator[Member]:
    position, offset = 0, 0
    while position < len(listed):
        if len(listed) - position < _CENTRAL.size:
            raise refused("there are bytes behind the list of members", where)
        found = _CENTRAL.unpack_from(listed, position)
        crc32, size_bytes, name_bytes = found[7], found[9], found[10]
        position += _CENTRAL.size
        name = listed[position : position + name_bytes].decode("ascii", "backslashreplace")
        member = Member(name, size_bytes, crc32, offset)
        # The name first: whatever else is wrong with it, that is what people look for.
        problem = allowed(name, size_bytes)
        if problem:
            raise refused(f"{_shown(name)}: {problem}", where)
        _compare(_shown(name), _CENTRAL_FIELDS, found, _central_values(member), where)
        yield member
        position += name_bytes
        offset = member.end


def _check_header(handle: int, member: Member, where: str) -> None:
    found = read_exactly(handle, member.offset, member.start - member.offset, where)
    if found != header_of(member):
        values = _LOCAL.unpack_from(found)
        _compare(f"the header of {member.name}", _LOCAL_FIELDS, values, _local_values(member), where)
        raise refused(f"{member.name}: its own header has another name", where)


def _compare(what: str, fields: Iterable[str], found: Iterable[object], expected: Iterable[object], where: str) -> None:
    for field, is_, should_be in zip(fields, found, expected, strict=True):
        if is_ != should_be:
            raise refused(f"{what}: the {field} is {_value(is_)}, in a bundle it is {_value(should_be)}", where)


def _value(value: object) -> str:
    return repr(value) if isinstance(value, bytes) else f"{value:#x}"


def _shown(name: str) -> str:
    # Names of a hostile file end up in terminals.
    return repr(name[:200])


def _local_values(member: Member) -> tuple[object, ...]:
    return (b"PK\x03\x04", _VERSION, *_common_values(member))


def _central_values(member: Member) -> tuple[object, ...]:
    return (b"PK\x01\x02", _MADE_ON_UNIX, _VERSION, *_common_values(member), 0, 0, 0, _MODE, member.offset)


def _common_values(member: Member) -> tuple[int, ...]:
    size_bytes = member.size_bytes
    return 0, _STORED, _NO_TIME, _FIRST_DAY, member.crc32, size_bytes, size_bytes, len(member.name), 0


def _end_values(count: int, list_bytes: int, list_offset: int) -> tuple[object, ...]:
    return b"PK\x05\x06", 0, 0, count, count, list_bytes, list_offset, 0
