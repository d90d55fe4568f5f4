from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelforge.errors import (
    ObjectConflict,
    ObjectCorrupt,
    ObjectMissing,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)
from kernelforge.store import PruneStore, get_blob, open_store, put_blob
from kernelforge.store.file import FileStore
from kernelforge.store.layout import blob_name
from tests.store.conformance import CONTENT, StoreConformance, try_create

NOBODY = 65534


class TestFileStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> PruneStore:
        return FileStore(tmp_path / "store")


class TestFileStoreWithoutHardLinks(StoreConformance):
    """FAT and many network mounts have no hard links; the same promises hold there."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PruneStore:
        def no_links(source: Path, target: Path) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        rename = os.rename

        def slow_rename(source: Path, target: Path) -> None:
            time.sleep(0.02)  # long enough for a second writer to find the name free, were it not for the lock
            rename(source, target)

        monkeypatch.setattr(os, "link", no_links)
        monkeypatch.setattr(os, "rename", slow_rename)
        return FileStore(tmp_path / "store")


def test_location_opens_the_same_store(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a folder, with 100 % odd characters")
    store.create("a", b"x")
    assert open_store(store.location).get("a", limit_bytes=1) == b"x"


def test_readers_write_nothing(tmp_path: Path) -> None:
    """A pod with a read-only disk must be able to ask; the folder appears with the first write."""
    store = FileStore(tmp_path / "store")
    with pytest.raises(ObjectMissing):
        store.get("a/b", limit_bytes=1)
    with pytest.raises(ObjectMissing):
        store.size("a/b")
    assert list(store.names()) == []
    store.delete("a/b")
    assert not (tmp_path / "store").exists()


def test_other_users_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    """Temporary files are private by default, and a linked one would stay so: no other user could use the store."""
    FileStore(tmp_path).create("a", b"x")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


def test_no_hidden_files_stay_behind(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.create("a", b"x")
    store.create("a", b"x")
    with pytest.raises(ObjectConflict):
        store.create("a", b"y")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_killed_writer_leaves_nothing_to_read_and_no_obstacle(tmp_path: Path) -> None:
    """kill -9 in the middle of a write must look like no write at all."""
    script = (
        "import os, sys, time; from pathlib import Path; from kernelforge.store.file import FileStore\n"
        "def hang(descriptor): print('written, not published', flush=True); time.sleep(60)\n"
        "os.fsync = hang\n"
        "FileStore(Path(sys.argv[1])).create('v1/a', b'x' * 1000)"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"written, not published\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()

    store = FileStore(tmp_path)
    assert len(list((tmp_path / "v1").iterdir())) == 1, "the writer died with its file half way"
    assert list(store.names()) == []
    with pytest.raises(ObjectMissing):
        store.get("v1/a", limit_bytes=1000)
    assert store.create("v1/a", b"x" * 1000) is True
    assert list(store.names()) == ["v1/a"]


def test_of_processes_at_once_one_wins(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    start_at = time.time() + 1.5
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=spawn) as pool:
        outcomes = list(pool.map(_race, [tmp_path] * 4, range(4), [start_at] * 4))
    for number in range(50):
        assert sorted(outcome[number] for outcome in outcomes) == ["conflict"] * 3 + ["created"]


def _race(root: Path, mine: int, start_at: float) -> list[str]:
    store = FileStore(root)
    time.sleep(max(0.0, start_at - time.time()))
    return [try_create(store, f"v1/{number}", bytes([mine]) * 100) for number in range(50)]


def test_folder_in_place_of_an_object_is_corrupt_and_moved_away_by_the_next_write(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    blob = put_blob(store, CONTENT)
    path = tmp_path / blob_name(blob.stored_digest)
    path.unlink()
    path.mkdir()
    (path / "something").write_text("of somebody's")
    for read in (lambda: get_blob(store, blob), lambda: store.size(blob_name(blob.stored_digest))):
        with pytest.raises(ObjectCorrupt):
            read()
    put_blob(store, CONTENT)
    assert get_blob(store, blob) == CONTENT
    assert [path.read_text() for path in tmp_path.rglob("something")] == ["of somebody's"]


def test_pipe_in_place_of_an_object_does_not_hang_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    with pytest.raises(ObjectCorrupt):
        FileStore(tmp_path).get("a", limit_bytes=1)


def test_file_in_place_of_a_folder_is_unavailable(tmp_path: Path) -> None:
    """Neither a miss, which would start a build whose result cannot be kept, nor a Python error."""
    (tmp_path / "v1").write_text("a file")
    store = FileStore(tmp_path)
    with pytest.raises(StoreUnavailable):
        store.get("v1/a", limit_bytes=1)
    with pytest.raises(StoreUnavailable):
        store.create("v1/a", b"x")
    with pytest.raises(StoreUnavailable):
        FileStore(tmp_path / "v1").create("a", b"x")


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """Root passes every permission check, so give that up for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_forbidden_is_neither_missing_nor_corrupt() -> None:
    """A store that we may not read must not look like an empty one: every build would start from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        store = FileStore(Path(folder))
        store.create("v1/a", b"x")
        os.chmod(f"{folder}/v1/a", 0)
        os.chmod(f"{folder}/v1", 0o555)
        with without_privileges():
            with pytest.raises(StoreDenied):
                store.get("v1/a", limit_bytes=1)
            with pytest.raises(ObjectMissing):
                store.get("v1/b", limit_bytes=1)
            with pytest.raises(StoreDenied):
                store.create("v1/b", b"x")
        os.chmod(f"{folder}/v1", 0o000)
        with without_privileges():
            for ask in (lambda: store.size("v1/a"), lambda: list(store.names())):
                with pytest.raises(StoreDenied):
                    ask()
        os.chmod(f"{folder}/v1", 0o755)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_full_disk_leaves_no_half_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Injected, so that it runs where mounting is not allowed; the next test has the real thing."""

    def full(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    store = FileStore(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StoreFull):
            store.create("v1/a", b"x")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert store.create("v1/a", b"x") is True


def test_really_full_and_really_read_only_disk(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys; from pathlib import Path; from kernelforge.store.file import FileStore\n"
        "from kernelforge.errors import StoreFull\n"
        "root = Path(sys.argv[1]); store = FileStore(root); store.create('v1/small', b'x' * 1000)\n"
        "try: store.create('v1/large', b'x' * (2 << 20))\n"
        "except StoreFull as error: print(error.problem)\n"
        "print(sorted(path.name for path in root.rglob('*')), store.create('v1/small2', b'x' * 1000))\n"
        "subprocess.run(['mount', '-o', 'remount,ro', root], check=True)\n"
        "try: store.create('v1/small3', b'x')\n"
        "except StoreFull as error: print(error.problem)\n"
        "print(len(store.get('v1/small', limit_bytes=1000)))\n"
    )
    (tmp_path / "script.py").write_text(script)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount_and_run = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" "$3" "$1"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount_and_run, "sh", str(disk), sys.executable]
    if subprocess.run(["unshare", "--map-root-user", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not allow a mount namespace")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, str(tmp_path / "script.py")], check=False, capture_output=True, text=True, env=environment
    )
    assert done.stdout.splitlines() == [
        "No space left on device",
        "['small', 'v1'] True",
        "Read-only file system",
        "1000",
    ], done.stderr


def test_disk_trouble_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StoreUnavailable):
        FileStore(tmp_path).create("v1/a", b"x")
