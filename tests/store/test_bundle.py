"""A file that is not exactly a bundle is refused as a whole, before any member of it is read."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing, StoreDenied, StoreFull
from kernelforge.release.bundle import write_bundle
from kernelforge.store.bundle import INDEX, BundleStore
from kernelforge.store.layout import blob_name, lock_name
from kernelforge.store.memory import MemoryStore
from tests.small_release import LOCK, fill

BLOB = blob_name(Digest.of(b"extra"))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    store = MemoryStore()
    fill(store)
    path = tmp_path / "small.bundle"
    write_bundle(path, LOCK, store, signatures={})
    return path


def rewritten(path: Path, change: Callable[[list[tuple[zipfile.ZipInfo, bytes]]], None], **options: int) -> Path:
    """The bundle as another zip tool writes it, in our spelling as far as that tool can, after a change."""
    with zipfile.ZipFile(path) as archive:
        members = [(member, archive.read(member)) for member in archive.infolist()]
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members:
            archive.writestr(member, data, **options)
    return path


def added(name: str, data: bytes = b"extra") -> Callable[[list[tuple[zipfile.ZipInfo, bytes]]], None]:
    def change(members: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, 0o100644 << 16
        members.append((info, data))

    return change


def test_unchanged_it_is_read(bundle: Path) -> None:
    """So that what is refused below is refused for the change alone."""
    BundleStore(rewritten(bundle, lambda members: None))


@pytest.mark.parametrize("name", ["v1/../../etc/passwd", "../evil.so", "v1/blobs/sha256/ab/../../x"])
def test_a_way_out_is_refused(bundle: Path, name: str) -> None:
    with pytest.raises(ObjectCorrupt, match="no member of a bundle has such a name"):
        BundleStore(rewritten(bundle, added(name)))


@pytest.mark.parametrize("name", ["/etc/passwd", "C:\\evil", "//host/share"])
def test_an_absolute_name_is_refused(bundle: Path, name: str) -> None:
    with pytest.raises(ObjectCorrupt, match="no member of a bundle has such a name"):
        BundleStore(rewritten(bundle, added(name)))


@pytest.mark.parametrize("name", ["README", "kf.json", "v1/refs/a/prod.dsse.json", "v1/release/actions/ab/x.json"])
def test_an_extra_member_is_refused(bundle: Path, name: str) -> None:
    with pytest.raises(ObjectCorrupt, match="no member of a bundle has such a name"):
        BundleStore(rewritten(bundle, added(name)))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_duplicate_is_refused(bundle: Path) -> None:
    with pytest.raises(ObjectCorrupt, match="twice"):
        BundleStore(rewritten(bundle, lambda members: added(members[-1][0].filename, members[-1][1])(members)))


def test_another_order_is_refused(bundle: Path) -> None:
    with pytest.raises(ObjectCorrupt):
        BundleStore(rewritten(bundle, lambda members: members.reverse()))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFCHR])
def test_a_link_is_refused(bundle: Path, kind: int) -> None:
    def change(members: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
        members[-1][0].external_attr = (kind | 0o777) << 16

    with pytest.raises(ObjectCorrupt, match="the mode is"):
        BundleStore(rewritten(bundle, change))


def test_a_compressed_member_is_refused(bundle: Path) -> None:
    with pytest.raises(ObjectCorrupt, match="the compression is"):
        BundleStore(rewritten(bundle, lambda members: None, compress_type=zipfile.ZIP_DEFLATED))


def test_an_oversized_member_is_refused_before_it_is_read(bundle: Path) -> None:
    with pytest.raises(ObjectCorrupt, match="at most 65536 can be right"):
        BundleStore(rewritten(bundle, lambda members: members.__setitem__(0, (members[0][0], b" " * 70_000))))


def test_a_blob_that_the_lockfile_does_not_name_is_refused(bundle: Path) -> None:
    def change(members: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
        added(BLOB)(members)
        members.sort(key=lambda member: (not member[0].filename.startswith(("bundle", "v1/locks")), member[0].filename))

    found = BundleStore(rewritten(bundle, change))
    with pytest.raises(ObjectCorrupt, match="names no such blob"):
        found.check_named_by(LOCK)


def test_a_member_of_another_size_is_refused(bundle: Path) -> None:
    def change(members: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
        members[-1] = (members[-1][0], members[-1][1] + b"?")

    with pytest.raises(ObjectCorrupt, match="another size"):
        BundleStore(rewritten(bundle, change)).check_named_by(LOCK)


def test_the_index_is_the_first_and_there(bundle: Path) -> None:
    with pytest.raises(ObjectCorrupt, match=INDEX):
        BundleStore(rewritten(bundle, lambda members: members.__delitem__(0)))


@pytest.mark.parametrize("keep", [0, 1, 21, 22, 300, -1, -22])
def test_a_file_that_was_cut_is_refused(bundle: Path, keep: int) -> None:
    bundle.write_bytes(bundle.read_bytes()[:keep])
    with pytest.raises(ObjectCorrupt):
        BundleStore(bundle)


@pytest.mark.parametrize("place", ["front", "behind", "comment"])
def test_bytes_that_belong_to_nothing_are_refused(bundle: Path, place: str) -> None:
    data = bundle.read_bytes()
    changed = {
        "front": b"#!/bin/sh\n" + data,
        "behind": data + b"\0",
        "comment": data[:-2] + struct.pack("<H", 2) + b"hi",
    }
    bundle.write_bytes(changed[place])
    with pytest.raises(ObjectCorrupt):
        BundleStore(bundle)


def test_every_altered_byte_outside_members_is_refused(bundle: Path) -> None:
    """Headers are made again and compared, so no bit of them is free to say something else."""
    data = bundle.read_bytes()
    first_header = range(30)
    end = range(len(data) - 22, len(data))
    for position in [*first_header, *end]:
        bundle.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(ObjectCorrupt):
            BundleStore(bundle)


def test_it_is_read_only(bundle: Path) -> None:
    store = BundleStore(bundle)
    for write in (
        lambda: store.create("a", b""),
        lambda: store.replace("a", b"", version=""),
        lambda: store.delete(lock_name(LOCK.digest)),
    ):
        with pytest.raises(StoreFull, match="read-only"):
            write()
    with pytest.raises(ObjectMissing):
        store.get("v1/blobs/none", limit_bytes=1)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing):
        BundleStore(tmp_path / "none")
    with pytest.raises((ObjectCorrupt, StoreDenied)):
        BundleStore(tmp_path)
