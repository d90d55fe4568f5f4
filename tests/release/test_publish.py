"""A lockfile is written once everything it names is there, and written only when it changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing, StoreFull
from kernelforge.release.publish import publish_lockfile, write_file
from kernelforge.store.file import FileStore
from kernelforge.store.layout import about_name, blob_name, lock_name
from kernelforge.store.memory import MemoryStore
from tests.loader.python_process import run_python
from tests.small_release import LOCK, fill


def test_an_unchanged_file_is_left_alone(tmp_path: Path) -> None:
    """A rebuild that changed nothing must not touch git's index, nor wake up whoever watches the file."""
    path = tmp_path / "registry" / "releases" / "x.lock.json"
    assert write_file(path, b"one")
    before = path.stat()
    assert not write_file(path, b"one")
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_changed_file_is_replaced_whole(tmp_path: Path) -> None:
    """By rename: who has the old file open goes on reading the old one."""
    path = tmp_path / "x.lock.json"
    write_file(path, b"one")
    with path.open("rb") as reader:
        assert write_file(path, b"two")
        assert reader.read() == b"one"
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


_WRITE_UNTIL_THE_DISK_IS_FULL = """
import resource, signal, sys
from pathlib import Path
from kernelforge.errors import StoreFull
from kernelforge.release.publish import write_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_file(Path(sys.argv[1]), bytes(5000))
except StoreFull as error:
    print(error)
"""


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """Case E3: half a lockfile, or a stray part of one, after the disk was full."""
    path = tmp_path / "x.lock.json"
    write_file(path, b"one")
    words = run_python(_WRITE_UNTIL_THE_DISK_IS_FULL, str(path))
    assert words.startswith(f"{path}: cannot write: ")
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["file/x.lock.json", "folder"])
def test_a_place_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreFull) as caught:
        write_file(tmp_path / place, b"one")
    assert caught.value.where == str(tmp_path / place)
    assert "--lock" in caught.value.hint


def test_a_read_only_place_is_an_error_of_ours() -> None:
    """`/proc` is one for every user, root included."""
    with pytest.raises(StoreFull, match="cannot write"):
        write_file(Path("/proc/kernelforge/x.lock.json"), b"one")


def test_a_published_lockfile_is_found_by_its_digest() -> None:
    store = MemoryStore()
    fill(store)
    facts = json.dumps({"schema": "kernelforge.facts/1"}).encode()
    digest = publish_lockfile(LOCK, store, facts=facts)
    assert digest == LOCK.digest
    assert store.get(lock_name(digest), limit_bytes=1 << 20) == LOCK.to_bytes()
    assert store.get(about_name(digest, "facts", Digest.of(facts)), limit_bytes=1 << 20) == facts


def test_publishing_again_writes_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    fill(store)
    publish_lockfile(LOCK, store, facts=b"{}")
    names = sorted(store.names())
    written = store.traffic.bytes_written
    publish_lockfile(LOCK, store, facts=b"{}")
    assert sorted(store.names()) == names
    assert store.traffic.bytes_written == written


def test_no_facts_means_no_document() -> None:
    store = MemoryStore()
    fill(store)
    publish_lockfile(LOCK, store, facts=None)
    assert list(store.names("v1/locks/")) == [lock_name(LOCK.digest)]


@pytest.mark.parametrize("device", sorted(LOCK.packs))
def test_nothing_is_published_while_a_pack_is_missing(device: str) -> None:
    """The promise that pods rely on: a lockfile in a store has its packs there."""
    store = MemoryStore()
    fill(store)
    store.delete(blob_name(LOCK.packs[device].blob.stored_digest))
    with pytest.raises(ObjectMissing):
        publish_lockfile(LOCK, store, facts=b"{}")
    assert not list(store.names("v1/locks/"))


def test_nothing_is_published_while_a_pack_is_damaged() -> None:
    store = MemoryStore()
    fill(store)
    name = blob_name(LOCK.packs["b200"].blob.stored_digest)
    store.delete(name)
    store.create(name, b"cut off")
    with pytest.raises(ObjectCorrupt):
        publish_lockfile(LOCK, store, facts=None)
    assert not list(store.names("v1/locks/"))
