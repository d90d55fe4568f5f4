"""A bundle: a release in one file, read in place as the store that it is. It cannot be written to.

Its members have the names that they have in any store:

    bundle.json                                      which lockfile this is about, and what else is inside
    v1/locks/sha256/<64 hex>.json                    that lockfile
    v1/locks/sha256/<64 hex>.sig/<key id>.dsse.json  signatures over it
    v1/blobs/sha256/ab/<64 hex>                      packs, and objects if asked for

Anything else in the file makes all of it useless, before a member is read: other names, members twice or in another
order, sizes that cannot be, and what ``stored_zip`` refuses. Being well formed is no reason to believe a bundle. The
lockfile has to be trusted like any other, and then says which blobs may be there at all (``check_named_by``).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelforge import json_values
from kernelforge.descriptor import MAX_SIZE_BYTES
from kernelforge.digest import Digest
from kernelforge.errors import (
    InputError,
    ObjectMissing,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)
from kernelforge.lockfile import SIZE_LIMIT_BYTES, Lockfile
from kernelforge.store.documents import Json, from_bytes, to_bytes
from kernelforge.store.interface import PruneStore, StoredObject, Traffic, TrafficMeter, larger_than, no_such_object
from kernelforge.store.layout import blob_name, check_name, lock_name
from kernelforge.store.named import Kind, named
from kernelforge.store.stored_zip import Member, read_exactly, read_members, refused

SCHEMA = "kernelforge.bundle/1"
INDEX = "bundle.json"
_INDEX_LIMIT_BYTES = 64 << 10

# In the order in which they stand in the file; with the most bytes that each may have.
_LIMITS_BYTES = {Kind.LOCK: SIZE_LIMIT_BYTES, Kind.SIGNATURE: 256 << 10, Kind.BLOB: MAX_SIZE_BYTES}
_ORDER = {kind: rank for rank, kind in enumerate(_LIMITS_BYTES)}


@dataclass(frozen=True)
class BundleIndex:
    """What a bundle says of itself: its lockfile, the device profiles whose packs are inside, whether objects are."""

    lock: Digest
    devices: tuple[str, ...]
    has_objects: bool

    def to_bytes(self) -> bytes:
        """The index as it is in the file; equal ones have equal bytes."""
        devices: list[Json] = [*sorted(self.devices)]
        document: dict[str, Json] = {"lock": str(self.lock), "devices": devices, "objects": self.has_objects}
        return to_bytes({"schema": SCHEMA, **document}, where=INDEX)

    @classmethod
    def parse(cls, data: bytes, *, where: str) -> BundleIndex:
        """The inverse of ``to_bytes``; ``ObjectCorrupt``, ``FormatUnknown``."""
        document = from_bytes(data, schema=SCHEMA, where=where)
        try:
            found = json_values.members(document, _MEMBERS)
            index = cls(Digest.parse(found["lock"]), found["devices"], found["objects"])
        except (ValueError, InputError) as error:
            raise refused(f"its index is none: {error}", where) from error
        if index.to_bytes() != data:
            raise refused("its index is not spelt as a bundle's", where)
        return index


class BundleStore(PruneStore):
    """The bundle at ``path``. All writes raise ``StoreFull``, as those to any other read-only place do.

    Making one opens and checks the file. Raises ``ObjectMissing`` if there is none, ``ObjectCorrupt`` if it is no
    bundle, ``FormatUnknown`` for a later version's, ``StoreDenied`` and ``StoreUnavailable``. The file that was checked
    stays open, so one that is put in its place later is another bundle.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._meter = TrafficMeter()
        where = str(self._path)
        with _our_errors(where):
            # A named pipe would be waited for otherwise.
            self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            weakref.finalize(self, os.close, self._handle)
            status = os.fstat(self._handle)
            if not stat.S_ISREG(status.st_mode):
                raise refused("not a file", where)
            self._modified_s = status.st_mtime
            members = read_members(self._handle, where=where, allowed=_problem_with)
            self._members: Mapping[str, Member] = {member.name: member for member in members}
            _check_order(members, where)
            data = read_exactly(self._handle, members[0].start, members[0].size_bytes, where)
        self._index = BundleIndex.parse(data, where=f"{where}: {INDEX}")
        self._check_about_one_lock(where)

    @property
    def index(self) -> BundleIndex:
        """What it says of itself; nobody has signed that."""
        return self._index

    @property
    def lock(self) -> Digest:
        """The lockfile that it is about."""
        return self._index.lock

    @property
    def location(self) -> str:
        return f"bundle:{self._path.as_uri().removeprefix('file:')}"

    @property
    def traffic(self) -> Traffic:
        return self._meter.reading()

    def check_named_by(self, lock: Lockfile) -> None:
        """``ObjectCorrupt`` unless every blob is one that ``lock``, which the caller trusts, names, with its size."""
        named_blobs = {blob_name(pack.blob.stored_digest): pack.blob.stored_size_bytes for pack in lock.packs.values()}
        blobs = {name: member.size_bytes for name, member in self._members.items() if named(name).kind is Kind.BLOB}
        # Entries are many and are parsed when they are first asked for; a bundle of packs does not need them.
        if not blobs.items() <= named_blobs.items():
            objects = {entry.object for entry in lock.entries}
            named_blobs.update((blob_name(blob.stored_digest), blob.stored_size_bytes) for blob in objects)
        foreign = sorted(name for name, size_bytes in blobs.items() if named_blobs.get(name) != size_bytes)
        if foreign:
            problem = f"the lockfile names no such blob, or one of another size: {foreign[0]}"
            raise refused(problem + (f" and {len(foreign) - 1} more" if foreign[1:] else ""), str(self._path))

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        return self.get_versioned(name, limit_bytes=limit_bytes)[0]

    def get_versioned(self, name: str, *, limit_bytes: int) -> tuple[bytes, str]:
        member, where = self._member(name), f"{self._path}: {name}"
        self._meter.add(gets=1)
        if member.size_bytes > limit_bytes:
            raise larger_than(limit_bytes, where)
        with _our_errors(where):
            data = read_exactly(self._handle, member.start, member.size_bytes, where)
        self._meter.add(bytes_read=len(data))
        return data, _version(member)

    def size(self, name: str) -> int:
        self._meter.add(heads=1)
        return self._member(name).size_bytes

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        if prefix.rpartition("/")[0]:
            check_name(prefix.rpartition("/")[0])
        self._meter.add(lists=1)
        for name, member in self._members.items():
            if name.startswith(prefix):
                yield StoredObject(name, member.size_bytes, self._modified_s, _version(member))

    def create(self, name: str, data: bytes) -> bool:
        raise self._read_only(name)

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        raise self._read_only(name)

    def delete(self, name: str, *, version: str | None = None) -> None:
        raise self._read_only(name)

    def _member(self, name: str) -> Member:
        check_name(name)
        try:
            return self._members[name]
        except KeyError:
            raise no_such_object(f"{self._path}: {name}") from None

    def _check_about_one_lock(self, where: str) -> None:
        if lock_name(self.lock) not in self._members:
            raise refused(f"it is about {self.lock}, which is not in it", where)
        lock = bytes.fromhex(self.lock.hex)
        for name in self._members:
            found = named(name)
            if found.kind in (Kind.LOCK, Kind.SIGNATURE) and found.digest != lock:
                raise refused(f"it is about {self.lock}, and {name} is about another lockfile", where)

    def _read_only(self, name: str) -> StoreFull:
        check_name(name)
        hint = "name another --store; 'kernelforge bundle --import' copies a bundle into one"
        return StoreFull("a bundle is read-only", hint=hint, where=f"{self._path}: {name}")


def member_order(name: str) -> tuple[int, str]:
    """The order of members in a bundle: the index, the lockfile, signatures, blobs; each by name."""
    return (-1, "") if name == INDEX else (_ORDER[named(name).kind], name)


def _problem_with(name: str, size_bytes: int) -> str:
    """What keeps a member of this name and size from being one of a bundle; empty if nothing does."""
    limit_bytes = _INDEX_LIMIT_BYTES if name == INDEX else _LIMITS_BYTES.get(named(name).kind)
    if limit_bytes is None:
        return "no member of a bundle has such a name"
    return f"it has {size_bytes} bytes, at most {limit_bytes} can be right" if size_bytes > limit_bytes else ""


def _check_order(members: list[Member], where: str) -> None:
    names = [member.name for member in members]
    if names[:1] != [INDEX]:
        raise refused(f"its first member is not {INDEX}", where)
    for before, name in itertools.pairwise(names):
        if before == name:
            raise refused(f"it has {name} twice", where)
        if member_order(before) > member_order(name):
            raise refused(f"{name} does not come before {before}", where)


def _version(member: Member) -> str:
    return f"{member.crc32:08x}-{member.size_bytes}"


@contextlib.contextmanager
def _our_errors(where: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectMissing("no such file", hint="check the path of the bundle", where=where) from error
    except PermissionError as error:
        raise StoreDenied(str(error.strerror), hint="give this user access to the bundle", where=where) from error
    except OSError as error:
        raise StoreUnavailable(error.strerror or str(error), hint="check the disk or the mount", where=where) from error


def _is_true(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


_MEMBERS = {
    "schema": json_values.text,
    "lock": json_values.text,
    "devices": json_values.items(json_values.text),
    "objects": _is_true,
}
