"""Damaged, missing and leftover files in every place that a pack comes from: cases E1 and E2."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelforge.errors import ObjectCorrupt, ObjectMissing, PackCorrupt, UnsafeCache
from kernelforge.loader.cache import PackCache
from kernelforge.store.blobs import put_blob
from kernelforge.store.file import FileStore
from kernelforge.store.layout import blob_name
from tests.loader.conftest import Release
from tests.loader.fake_release import KEYS


def flip(file: Path, data: bytes) -> None:
    file.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])


def directory(file: Path, data: bytes) -> None:
    file.mkdir()


def pipe(file: Path, data: bytes) -> None:
    """Opening it for reading would wait for ever."""
    os.mkfifo(file)


DAMAGES: dict[str, Callable[[Path, bytes], object]] = {
    "flipped": flip,
    "empty": lambda file, data: file.write_bytes(b""),
    "one byte": lambda file, data: file.write_bytes(data[:1]),
    "half": lambda file, data: file.write_bytes(data[: len(data) // 2]),
    "longer": lambda file, data: file.write_bytes(data + b"\0"),
    "directory": directory,
    "pipe": pipe,
}
damaged_in_all_ways = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
Damage = Callable[[Path, bytes], object]


def mount(release: Release, name: str = "mount") -> Path:
    """The pack's file in a new mount, not yet there."""
    folder = release.folder / name / "packs"
    folder.mkdir(parents=True)
    return folder / release.cached.name


@damaged_in_all_ways
def test_damage_in_the_cache_is_counted_and_replaced(release: Release, damage: Damage) -> None:
    PackCache(release.cache).prepare()
    damage(release.cached, release.library)
    kernels = release.load()
    assert [kernels[key](1) for key in KEYS] == [1, 2, 3]
    assert kernels.stats().errors == {"PackCorrupt": 1}
    assert kernels.stats().pack_source == "store"
    assert release.cached.read_bytes() == release.library
    assert release.load().stats().errors == {}


@damaged_in_all_ways
def test_damage_in_a_mount_is_said_counted_and_passed_over(
    release: Release, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    """A node's shared folder may rot while the pod could serve; nobody can repair it from here."""
    file = mount(release)
    damage(file, release.library)
    before = file.stat().st_mtime_ns
    kernels = release.load(mounts=[file.parents[1]])
    assert kernels.stats().pack_source == "store"
    assert kernels.stats().errors == {"PackCorrupt": 1}
    assert kernels.stats().had_damaged_copy
    assert f"the copy of a pack in the mount {file.parents[1]} is not used" in caplog.text
    assert file.stat().st_mtime_ns == before


@damaged_in_all_ways
def test_damage_everywhere_is_an_error_that_names_it(release: Release, damage: Damage) -> None:
    file = mount(release)
    damage(file, release.library)
    with pytest.raises(PackCorrupt, match=str(file)):
        release.load(mounts=[file.parents[1]], store=None)
    assert not release.trace.exists()


@damaged_in_all_ways
def test_damage_in_the_store_is_never_loaded_and_never_kept(release: Release, damage: Damage) -> None:
    store = release.folder / "store"
    blob = put_blob(FileStore(store), release.library, compress=False)
    file = store / blob_name(blob.stored_digest)
    file.unlink()
    damage(file, release.library)
    with pytest.raises(ObjectCorrupt):
        release.load(store=str(store))
    assert not release.trace.exists()
    assert list(release.cached.parent.iterdir()) == []


def test_a_damaged_store_among_the_mounts_is_passed_over(release: Release) -> None:
    blob = put_blob(FileStore(release.folder / "mount"), release.library, compress=False)
    flip(release.folder / "mount" / blob_name(blob.stored_digest), release.library)
    assert release.load(mounts=[release.folder / "mount"]).stats().errors == {"ObjectCorrupt": 1}


def test_places_are_asked_in_the_documented_order(release: Release, caplog: pytest.LogCaptureFixture) -> None:
    """Explicit path, mounts as they are named, cache, store; and nothing is written for what a mount has."""
    first, second = mount(release, "first"), mount(release, "second")
    mounts = [file.parents[1] for file in (first, second)]
    path = release.folder / "pack.so"
    for file in (path, second):
        file.write_bytes(release.library)
    assert release.load(pack=path, mounts=mounts).stats().pack_source == "path"
    assert release.load(mounts=mounts).stats().pack_source == "mount"
    assert not release.cache.exists()
    second.unlink()
    assert release.load(mounts=mounts).stats().pack_source == "store"
    assert release.load(mounts=mounts).stats().pack_source == "cache"
    second.write_bytes(release.library)
    assert release.load(mounts=mounts).stats().pack_source == "mount"
    assert caplog.messages == []  # a mount without the pack is nothing to warn of


def test_mounts_come_from_the_environment_too(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    file = mount(release)
    file.write_bytes(release.library)
    monkeypatch.setenv("KERNELFORGE_MOUNTS", f"/nowhere{os.pathsep}{file.parents[1]}")
    assert release.load().stats().pack_source == "mount"
    assert release.load(mounts=[]).stats().pack_source == "store"


def test_a_folder_that_pull_filled_is_a_mount(release: Release) -> None:
    release.load()
    assert release.load(mounts=[release.cache], cache=release.folder / "other").stats().pack_source == "mount"
    assert not (release.folder / "other").exists()


def test_a_mount_that_is_not_there_is_warned_of(release: Release, caplog: pytest.LogCaptureFixture) -> None:
    kernels = release.load(mounts=["/nowhere"])
    assert "the mount /nowhere cannot be read" in caplog.text
    assert kernels.stats().errors == {"NotADirectoryError": 1}


def test_in_no_place_names_every_place(release: Release) -> None:
    """E6: one clear error with the paths that were tried."""
    with pytest.raises(ObjectMissing, match=r"mount /nowhere cannot.*cache \(cache=\) does not.*no store") as refusal:
        release.load(mounts=["/nowhere"], store=None)
    assert str(release.cache) in str(refusal.value)


def test_a_writer_sweeps_what_killed_ones_left_and_nothing_else(release: Release) -> None:
    """E1: files of an unfinished write are no packs, stop nobody and go in the end."""
    release.load()
    packs = release.cached.parent
    hour_ago = time.time() - 3700
    for name in (".unfinished-old", ".unfinished-young", ".fetching-old", f"{'0' * 64}.so"):
        (packs / name).write_bytes(b"x")
        if "young" not in name:
            os.utime(packs / name, (hour_ago, hour_ago))
    assert release.load().stats().pack_source == "cache"
    assert len(list(packs.iterdir())) == 5  # a reader removes nothing
    release.cached.unlink()
    release.load()
    assert {file.name for file in packs.iterdir()} == {".unfinished-young", f"{'0' * 64}.so", release.cached.name}


def test_either_half_of_the_cache_may_be_deleted(release: Release) -> None:
    """E1: the pack without its folder, the folder without its pack: a miss, repaired, and later writes work."""
    release.load()
    release.cached.unlink()
    assert release.load().stats().pack_source == "store"
    release.cached.unlink()
    release.cached.parent.rmdir()
    assert release.load().stats().pack_source == "store"
    assert release.load().stats().pack_source == "cache"


@pytest.fixture
def full_cache(release: Release) -> Iterator[Path]:
    """The cache folder on a disk with 4 KiB left, which the pack does not fit in."""
    release.cache.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(release.cache)]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("a small disk needs root and the right to mount")
    try:
        (release.cache / "ballast").write_bytes(bytes(60 * 1024))
        yield release.cache
    finally:
        subprocess.run(["umount", "-l", str(release.cache)], check=True)


def test_a_full_disk_means_memory_one_warning_and_no_half_file(
    release: Release, full_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernels = release.load()
    assert [kernels[key](1) for key in KEYS] == [1, 2, 3]
    assert kernels.stats().is_in_memory
    assert kernels.stats().errors == {"OSError": 1}
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "No space left on device" in warning
    assert [file.name for file in full_cache.rglob("*") if file.is_file()] == ["ballast"]


def test_a_refused_cache_says_what_to_name_instead(release: Release) -> None:
    """An emptyDir of Kubernetes has mode 777; a folder in it, made by us, is closed."""
    release.cache.mkdir()
    release.cache.chmod(0o777)
    inside = release.cache / "kernelforge"
    with pytest.raises(UnsafeCache, match=str(inside)):
        release.load()
    kernels = release.load(cache=inside)
    assert [kernels[key](1) for key in KEYS] == [1, 2, 3]
    assert inside.stat().st_mode & 0o777 == 0o700
    # Whoever may rename our folder could exchange it between the check and the opening.
    assert kernels.stats().is_in_memory
    release.cache.chmod(0o1777)
    assert not release.load(cache=inside).stats().is_in_memory
