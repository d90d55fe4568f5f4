"""``kernelforge.load`` from end to end, with real shared libraries and no GPU."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kernelforge
from kernelforge.digest import Digest
from kernelforge.errors import (
    DeviceMismatch,
    KernelMissing,
    LockfileError,
    ObjectCorrupt,
    ObjectMissing,
    PackCorrupt,
    RuntimeUnfit,
    UnsafeCache,
    UntrustedLockfile,
    UsageError,
)
from kernelforge.store.blobs import put_blob
from kernelforge.store.file import FileStore
from kernelforge.target import Target
from tests.loader.conftest import Release
from tests.loader.fake_release import H200, KEYS, compile_pack, locked_entry, locked_pack, profile, with_pack
from tests.loader.scale import Scale


def test_every_key_gets_the_entry_that_was_built_for_it(release: Release) -> None:
    kernels = release.load()
    assert [kernels[key](10) for key in KEYS] == [10, 20, 30]
    assert Scale(kernels)(head_dim=128, number=10) == 20


def test_the_kernel_set_says_what_it_is(release: Release) -> None:
    kernels = release.load()
    assert kernels.lockfile_digest == release.lock.digest
    assert kernels.device.num_sms == 132
    assert len(kernels) == 3
    assert ("tests.loader.scale:Scale", {"head_dim": 64, "dtype": "bfloat16", "has_offset": False, "eps": 0.0}) in list(
        kernels
    )


def test_stats_tell_where_the_pack_came_from_and_what_took_time(release: Release) -> None:
    first, second = release.load().stats(), release.load().stats()
    assert (first.pack_source, second.pack_source) == ("store", "cache")
    assert "fetch_pack" in first.seconds
    assert "fetch_pack" not in second.seconds
    assert {"read_lockfile", "select_profile", "digest", "dlopen", "symbols"} <= set(second.seconds)
    assert second.pack_bytes == len(release.library)
    assert (second.kernels, second.kernel_classes) == (3, 1)
    assert second.total_s == pytest.approx(sum(second.seconds.values()))


def test_one_line_at_info_and_nothing_on_stdout(
    release: Release, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, logger="kernelforge")
    release.load()
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert str(release.lock.digest) in caplog.text
    assert capfd.readouterr() == ("", "")


def test_a_pinned_lockfile_may_come_as_bytes(release: Release) -> None:
    data = release.lock.to_bytes()
    kernels = kernelforge.load(
        data,
        trust=kernelforge.PinnedDigest(str(Digest.of(data))),
        store=release.store,
        cache=release.cache,
        device=H200,
    )
    assert kernels.lockfile_digest == Digest.of(data)


def test_another_lockfile_than_the_pinned_one_is_refused_before_it_is_parsed(release: Release) -> None:
    pinned = Digest.of(b"the reviewed lockfile")
    with pytest.raises(UntrustedLockfile, match=str(pinned)) as refusal:
        kernelforge.load(b"not even JSON", trust=kernelforge.PinnedDigest(pinned), device=H200)
    assert str(Digest.of(b"not even JSON")) in str(refusal.value)


def test_a_lockfile_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.lock.json"
    path.write_text('{"schema": "kernelforge.lock/99"}')
    with pytest.raises(LockfileError, match=r"kernelforge\.lock/99"):
        kernelforge.load(path, trust=kernelforge.LocalFile(), device=H200)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"contract": 99}, "version of the kernel contract is 99"),
        ({"abi": "c"}, "call interface is 'c', this loader's is 'tvm-ffi'"),
    ],
)
def test_a_lockfile_for_another_loader_is_refused(release: Release, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(LockfileError, match=words):
        release.load(replace(release.lock, **changes))


def test_wrong_bytes_in_the_store_are_never_opened(release: Release) -> None:
    """The library would run code of its own as soon as it is opened, so the digest has to come first."""
    name = next(release.store.names())
    release.store.delete(name)
    release.store.create(name, release.library[:-1] + b"\x01")
    with pytest.raises(ObjectCorrupt):
        release.load()
    assert not release.trace.exists()
    assert not release.cached.exists()


def test_a_good_pack_is_opened_and_its_constructor_runs(release: Release) -> None:
    """Keeps the tests honest that say 'never opened': their evidence is the absence of this file."""
    release.load()
    assert release.trace.exists()


def test_a_flipped_byte_in_the_cache_is_healed_from_the_store(
    release: Release, caplog: pytest.LogCaptureFixture
) -> None:
    release.load()
    damaged = bytearray(release.library)
    damaged[len(damaged) // 2] ^= 1
    release.cached.unlink()  # this process has the old file open, and would crash if that changed
    release.cached.write_bytes(damaged)
    kernels = release.load()
    assert release.cached.read_bytes() == release.library
    assert kernels.stats().pack_source == "store"
    assert kernels.stats().had_damaged_copy
    assert "the copy of a pack in the cache (cache=) is not used" in caplog.text


@pytest.mark.parametrize("damage", [b"", b"\x7f", b"half"], ids=["empty", "one byte", "garbage"])
def test_a_truncated_cache_without_a_store_is_an_error_and_stays_closed(release: Release, damage: bytes) -> None:
    release.cached.parent.mkdir(parents=True, mode=0o700)
    release.cache.chmod(0o700)
    release.cached.write_bytes(damage)
    with pytest.raises(PackCorrupt, match=str(Digest.of(damage))):
        release.load(store=None)
    assert not release.trace.exists()


def test_a_folder_in_the_place_of_the_cached_pack_is_moved_out_of_the_way(release: Release) -> None:
    release.cached.mkdir(parents=True, mode=0o700)
    release.cache.chmod(0o700)
    release.cached.parent.chmod(0o700)
    kernels = release.load()
    assert not kernels.stats().is_in_memory
    assert kernels.stats().errors == {"PackCorrupt": 1}
    assert kernels[KEYS[0]](1) == 1
    assert release.cached.read_bytes() == release.library


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o1777])
def test_a_cache_that_others_can_write_to_is_refused(release: Release, mode: int) -> None:
    release.cache.mkdir()
    release.cache.chmod(mode)
    with pytest.raises(UnsafeCache, match=f"mode {mode:o}"):
        release.load()
    assert not release.trace.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_cache_of_another_user_is_refused(release: Release) -> None:
    release.load()
    os.chown(release.cached.parent, 12345, -1)
    with pytest.raises(UnsafeCache, match="user 12345"):
        release.load()


def test_a_new_cache_is_closed_to_others(release: Release) -> None:
    release.load()
    assert {folder.stat().st_mode & 0o777 for folder in (release.cache, release.cached.parent)} == {0o700}


def test_a_cache_that_cannot_be_written_means_memory_and_one_warning(
    release: Release, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    kernels = release.load(cache=tmp_path / "file" / "cache")
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert kernels.stats().is_in_memory
    assert [kernels[key](10) for key in KEYS] == [10, 20, 30]
    assert "opened from memory" in caplog.text
    assert len(warnings) == 1


def test_two_releases_from_memory_do_not_get_each_others_code(release: Release, tmp_path: Path) -> None:
    """The dynamic linker tells libraries apart by path, and memory files are easily given the same one."""
    (tmp_path / "file").touch()
    (tmp_path / "second").mkdir()
    symbols = [entry.symbol for entry in release.lock.entries]
    library = compile_pack(tmp_path / "second", ["kf_first", *symbols])
    put_blob(release.store, library, compress=False)
    nowhere = tmp_path / "file" / "cache"
    first = release.load(cache=nowhere)
    second = release.load(with_pack(release.lock, blob=locked_pack(library).blob), cache=nowhere)
    assert first[KEYS[0]](1) == 1
    assert second[KEYS[0]](1) == 2


def test_no_store_and_no_cached_pack_names_the_place_that_was_looked_at(release: Release) -> None:
    with pytest.raises(ObjectMissing, match=r"no store was given.*kernelforge pull") as refusal:
        release.load(store=None)
    assert refusal.value.where == str(release.cached)


def test_a_store_may_be_given_as_a_location(release: Release, tmp_path: Path) -> None:
    put_blob(FileStore(tmp_path / "store"), release.library, compress=False)
    assert release.load(store=str(tmp_path / "store")).stats().pack_source == "store"


def test_a_named_pack_is_used_without_cache_or_store(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "a pack with any name"
    path.write_bytes(release.library)
    kernels = release.load(pack=path, store=None)
    assert kernels.stats().pack_source == "path"
    assert kernels[KEYS[1]](1) == 2
    assert not release.cache.exists()


def test_a_named_pack_with_other_bytes_is_refused_although_the_store_has_the_right_ones(
    release: Release, tmp_path: Path
) -> None:
    path = tmp_path / "pack.so"
    path.write_bytes(release.library + b"\0")
    with pytest.raises(PackCorrupt):
        release.load(pack=path)
    with pytest.raises(ObjectMissing):
        release.load(pack=tmp_path / "absent.so")
    with pytest.raises(PackCorrupt, match="not a regular file"):
        release.load(pack=tmp_path)


def test_a_pack_that_changed_under_an_opened_path_is_refused(release: Release, tmp_path: Path) -> None:
    """Silently, the dynamic linker would answer with the library that it opened first."""
    (tmp_path / "second").mkdir()
    path = tmp_path / "pack.so"
    path.write_bytes(release.library)
    release.load(pack=path)
    path.unlink()
    symbols = [entry.symbol for entry in release.lock.entries]
    library = compile_pack(tmp_path / "second", ["kf_first", *symbols])
    path.write_bytes(library)
    with pytest.raises(RuntimeUnfit, match="under this path before"):
        release.load(with_pack(release.lock, blob=locked_pack(library).blob), pack=path)


def test_code_for_another_architecture_under_the_right_name_is_refused(release: Release, tmp_path: Path) -> None:
    """A1: an sm_100a pack, renamed by hand to the sm_90a entry."""
    (tmp_path / "blackwell").mkdir()
    library = compile_pack(tmp_path / "blackwell", [entry.symbol for entry in release.lock.entries], arch="sm_100a")
    put_blob(release.store, library, compress=False)
    with pytest.raises(PackCorrupt, match=r"sm_90a.*sm_100a"):
        release.load(with_pack(release.lock, blob=locked_pack(library).blob))
    assert not release.trace.exists()


@pytest.mark.parametrize(("arch", "locked"), [("sm_100f", "sm_100a"), ("sm_100a", "sm_100f")])
def test_family_and_exact_code_are_not_taken_for_each_other(
    release: Release, tmp_path: Path, arch: str, locked: str
) -> None:
    """C3: their ELF headers are equal, so what counts is the option that the image itself recorded."""
    (tmp_path / "blackwell").mkdir()
    library = compile_pack(tmp_path / "blackwell", [entry.symbol for entry in release.lock.entries], arch=arch)
    put_blob(release.store, library, compress=False)
    target = Target(locked, release.lock.packs["h200-sxm"].target.host)
    lock = replace(
        release.lock,
        devices={"b200": profile("b200", arch=locked, facts={"num_sms": 132})},
        entries=tuple(locked_entry(key, target=target, devices=("b200",)) for key in KEYS),
        packs={"b200": locked_pack(library, target=target)},
    )
    with pytest.raises(PackCorrupt, match=f"the lockfile says {locked}, .* is for {arch}"):
        release.load(lock, device=replace(H200, capability=(10, 0)))
    assert not release.trace.exists()


def test_a_lockfile_whose_pack_and_entries_differ_in_target_is_refused(release: Release) -> None:
    """A1: the same by editing the lockfile."""
    with pytest.raises(LockfileError, match=r"sm_90a.*sm_100a"):
        release.load(with_pack(release.lock, target=replace(release.lock.packs["h200-sxm"].target, arch="sm_100a")))


def test_a_device_that_the_lockfile_was_not_built_for_is_refused(release: Release) -> None:
    """A1: only an sm_100a profile, on an sm_90 card."""
    target = Target("sm_100a", release.lock.packs["h200-sxm"].target.host)
    lock = replace(
        release.lock,
        devices={"b200": profile("b200", arch="sm_100a", facts={"num_sms": 148})},
        entries=tuple(locked_entry(key, target=target, devices=("b200",)) for key in KEYS),
        packs={"b200": locked_pack(release.library, target=target)},
    )
    with pytest.raises(DeviceMismatch, match="code for sm_100a does not run on an sm_90 device"):
        release.load(lock)
    assert not release.trace.exists()


def test_a_symbol_that_the_pod_lacks_is_refused_before_the_pack_is_opened(release: Release) -> None:
    """C7: found at the first call it would end the process."""
    undefined = ("CuteDSLRT_NewInNextVersion", "TVMFFIErrorSetRaisedFromCStr")
    with pytest.raises(RuntimeUnfit, match=r"no library of this process has CuteDSLRT_NewInNextVersion.*tvm-ffi"):
        release.load(with_pack(release.lock, undefined=undefined))
    assert not release.trace.exists()


def test_a_library_that_the_pod_lacks_is_refused_before_the_pack_is_opened(release: Release) -> None:
    with pytest.raises(RuntimeUnfit, match=r"libcudart\.so\.99 cannot be opened.*CUDA 13 runtime"):
        release.load(with_pack(release.lock, needed=("libcudart.so.99", "libtvm_ffi.so")))
    assert not release.trace.exists()


def test_an_old_driver_is_refused_with_both_versions(release: Release) -> None:
    """C5: a driver for CUDA 12.4 and a pack built by the CUDA 13 compiler."""
    with pytest.raises(RuntimeUnfit, match=r"up to 12\.4.*needs 13\.0"):
        release.load(device=replace(H200, driver_cuda=(12, 4)))
    assert not release.trace.exists()


def test_a_pack_without_a_symbol_of_the_lockfile_is_refused(release: Release) -> None:
    key = Scale.CompileKey(head_dim=256)
    lock = replace(release.lock, entries=(*release.lock.entries, locked_entry(key)))
    with pytest.raises(PackCorrupt, match="lacks 1 of the lockfile's symbols: kf_Scale_"):
        release.load(lock)


def test_missing_requirements_are_all_listed_at_load(release: Release) -> None:
    keys = [KEYS[0], Scale.CompileKey(head_dim=96), Scale.CompileKey(head_dim=512)]
    with pytest.raises(KernelMissing, match=r"lacks 2 kernels") as refusal:
        release.load(require={Scale: keys})
    assert "head_dim=96" in str(refusal.value)
    assert "head_dim=512" in str(refusal.value)
    release.load(require={"tests.loader.scale:Scale": KEYS})


@pytest.mark.parametrize("options", [{"policy": "jit"}, {"policy": ""}, {"trust": None}, {"trust": "LocalFile"}])
def test_options_that_make_no_sense_are_usage_errors(release: Release, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        release.load(**options)


def test_trust_has_no_default(release: Release) -> None:
    with pytest.raises(TypeError, match="trust"):
        kernelforge.load(release.lock.to_bytes(), device=H200)  # type: ignore[call-arg]
