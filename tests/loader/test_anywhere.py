"""A pod with nothing but the lockfile and the packs: read-only root, random user, no home, network, compiler or PATH.

Cases C10 and E6. The pods are real ones (a namespace, another user); what they did is what the kernel saw them do.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelforge.store.blobs import put_blob
from kernelforge.store.file import FileStore
from tests.loader.conftest import Release
from tests.loader.pod import RANDOM_USER, Pod

pytestmark = pytest.mark.slow


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can read; pytest's own are for one."""
    path = Path(tempfile.mkdtemp(prefix="kernelforge-pod-"))
    path.chmod(0o755)
    yield path
    shutil.copy(path / "pod" / "strace.log", "/tmp/strace.log")
    shutil.rmtree(path)


@pytest.fixture
def pod(folder: Path) -> Pod:
    (folder / "pod").mkdir(mode=0o755)
    made = Pod(folder / "pod")
    reason = made.skip_reason()
    if reason:
        pytest.skip(reason)
    return made


@pytest.fixture
def lock(release: Release, folder: Path) -> Path:
    path = folder / "x.lock.json"
    path.write_bytes(release.lock.to_bytes())
    return path


def fill(mount: Path, release: Release, data: bytes | None = None) -> Path:
    """What ``kernelforge pull --cache`` makes, as an init container of another user leaves it: readable by all."""
    (mount / "packs").mkdir(parents=True, mode=0o755)
    file = mount / "packs" / release.cached.name
    file.write_bytes(release.library if data is None else data)
    return mount


def test_a_mount_is_read_and_nothing_else_happens(release: Release, folder: Path, lock: Path, pod: Pod) -> None:
    """C10, E6: no write, not even an attempt; no program is started; nobody is called."""
    seen = pod.load(lock, mounts=[str(fill(folder / "mount", release))])
    assert seen.outcome["results"] == [1, 2, 3]
    assert (seen.outcome["source"], seen.outcome["in_memory"]) == ("mount", False)
    assert (seen.writes, seen.programs, seen.network) == ([], [], [])
    assert seen.outcome["warnings"] == []


@pytest.mark.parametrize("compress", [True, False])
def test_a_file_store_is_a_mount_too(release: Release, folder: Path, lock: Path, pod: Pod, compress: bool) -> None:
    """Its blobs may be compressed, so the pack comes out of memory, still with no write."""
    if compress:
        blob = put_blob(FileStore(folder / "mount"), release.library)
        packs = {"h200-sxm": replace(release.lock.packs["h200-sxm"], blob=blob)}
        lock.write_bytes(replace(release.lock, packs=packs).to_bytes())
    else:
        put_blob(FileStore(folder / "mount"), release.library, compress=False)
    seen = pod.load(lock, mounts=[str(folder / "mount")])
    assert seen.outcome["results"] == [1, 2, 3]
    assert (seen.outcome["source"], seen.outcome["in_memory"]) == ("mount", True)
    assert (seen.writes, seen.programs, seen.network) == ([], [], [])
    assert seen.outcome["warnings"] == []


def test_the_trace_would_show_a_write(release: Release, folder: Path, lock: Path, pod: Pod) -> None:
    """Keeps the tests honest that say 'no write'; here the default cache, below HOME=/, is tried in vain.

    E6: a fetch is needed and no place can be written: one warning, and the pack is opened from memory.
    """
    put_blob(FileStore(folder / "store"), release.library, compress=False)
    seen = pod.load(lock, store=str(folder / "store"))
    assert any("/.cache" in call for call in seen.writes)
    assert (seen.outcome["source"], seen.outcome["in_memory"]) == ("store", True)
    assert seen.outcome["results"] == [1, 2, 3]
    [warning] = seen.outcome["warnings"]
    assert "opened from memory" in warning
    assert "/.cache" in warning


def test_a_read_only_cache_that_is_not_filled_costs_one_warning(
    release: Release, folder: Path, lock: Path, pod: Pod
) -> None:
    """EROFS: the folder belongs to this user, and its file system is read-only."""
    put_blob(FileStore(folder / "store"), release.library, compress=False)
    cache = folder / "cache"
    (cache / "packs").mkdir(parents=True, mode=0o700)
    for path in (cache, cache / "packs"):
        path.chmod(0o700)
        os.chown(path, RANDOM_USER, 0)
    seen = pod.load(lock, store=str(folder / "store"), cache=str(cache))
    assert seen.outcome["results"] == [1, 2, 3]
    assert seen.outcome["in_memory"]
    [warning] = seen.outcome["warnings"]
    assert "Read-only file system" in warning
    assert seen.outcome["errors"] == {"OSError": 1}
    assert seen.outcome["counters"]["downloads"] == 1


def test_a_mount_that_this_user_cannot_read_is_said_and_passed_over(
    release: Release, folder: Path, lock: Path, pod: Pod
) -> None:
    closed = fill(folder / "closed", release)
    (closed / "packs").chmod(0o700)
    seen = pod.load(lock, mounts=[str(closed), str(fill(folder / "open", release))])
    assert seen.outcome["source"] == "mount"
    [warning] = seen.outcome["warnings"]
    assert f"the mount {closed} cannot be read" in warning
    assert seen.outcome["errors"] == {"PermissionError": 1}


def test_a_pack_of_a_foreign_user_on_a_read_only_mount_is_opened_in_place(
    release: Release, folder: Path, lock: Path, pod: Pod
) -> None:
    """An init container of another user filled it: what counts is that nobody writes to it here."""
    mount = fill(folder / "mount", release)
    for path in (mount, mount / "packs", mount / "packs" / release.cached.name):
        os.chown(path, RANDOM_USER + 1, 0)
        path.chmod(0o777)
    seen = pod.load(lock, mounts=[str(mount)])
    assert (seen.outcome["results"], seen.outcome["in_memory"]) == ([1, 2, 3], False)
