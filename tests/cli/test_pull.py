"""The command pull: packs into the local cache, each of them proven."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.store.layout import blob_name
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release

STORE = ("--store", "file:store")
CACHE = ("--cache", "cache")


def cached(release: Release) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (release.folder / "cache" / "packs").iterdir()}


def test_packs_arrive_with_their_content_under_their_names(kernelforge: Kernelforge, release: Release) -> None:
    ran = kernelforge("pull", release.lock_path, *STORE, *CACHE, "--trust-file", "--json")
    assert ran.code == 0, ran.err
    packs = json.loads(ran.out)["packs"]
    assert {device: pack["source"] for device, pack in packs.items()} == {"b200": "store", "h200-sxm": "store"}
    for device, locked in release.lock.packs.items():
        data = Path(packs[device]["path"]).read_bytes()
        assert Digest.of(data) == locked.blob.content_digest
        assert packs[device]["size_bytes"] == len(data)


def test_the_second_pull_asks_no_store(kernelforge: Kernelforge, release: Release) -> None:
    kernelforge("pull", release.lock_path, *STORE, *CACHE, "--trust-file")
    again = kernelforge("pull", release.lock_path, "--store", "file:elsewhere", *CACHE, "--trust-file")
    assert again.code == 0, again.err
    assert "h200-sxm: was there" in again.out


def test_only_the_devices_that_are_asked_for(kernelforge: Kernelforge, release: Release) -> None:
    ran = kernelforge("pull", release.lock_path, *STORE, *CACHE, "--trust-file", "--device", "h200-sxm")
    assert ran.code == 0, ran.err
    assert list(cached(release)) == [f"{release.lock.packs['h200-sxm'].blob.content_digest.hex}.so"]


def test_a_device_that_the_lockfile_lacks_is_refused_with_those_it_has(
    kernelforge: Kernelforge, release: Release
) -> None:
    ran = kernelforge("pull", release.lock_path, *STORE, *CACHE, "--trust-file", "--device", "h200")
    assert ran.code == 2
    assert "b200, h200-sxm" in ran.err


def test_nothing_is_trusted_by_default(kernelforge: Kernelforge, release: Release) -> None:
    """Whoever can write the lockfile decides which native code runs: somebody must vouch for it, in words."""
    ran = kernelforge("pull", release.lock_path, *STORE, *CACHE)
    assert ran.code == 2
    assert "--pin" in ran.err
    assert "--trust-file" in ran.err
    assert not (release.folder / "cache").exists()


def test_two_kinds_of_trust_at_once_are_refused(kernelforge: Kernelforge, release: Release) -> None:
    ran = kernelforge("pull", release.lock_path, *STORE, *CACHE, "--trust-file", "--pin", release.lock.digest)
    assert ran.code == 2


def test_the_pinned_lockfile_is_pulled(kernelforge: Kernelforge, release: Release) -> None:
    assert kernelforge("pull", release.lock_path, *STORE, *CACHE, "--pin", release.lock.digest).code == 0


@pytest.mark.parametrize("pin", ["sha256:" + "0" * 64, "", "latest"])
def test_another_pin_fetches_nothing(kernelforge: Kernelforge, release: Release, pin: str) -> None:
    """An empty pin, from an unset variable in a script, is none that fits."""
    ran = kernelforge("pull", release.lock_path, *STORE, *CACHE, "--pin", pin)
    assert ran.code in (2, 3)
    assert not (release.folder / "cache").exists()


def test_a_damaged_copy_in_the_cache_is_replaced(kernelforge: Kernelforge, release: Release) -> None:
    kernelforge("pull", release.lock_path, *STORE, *CACHE, "--trust-file")
    sound = cached(release)
    for file in (release.folder / "cache" / "packs").iterdir():
        file.write_bytes(b"damaged")
    ran = kernelforge("pull", release.lock_path, *STORE, *CACHE, "--trust-file")
    assert ran.code == 0, ran.err
    assert cached(release) == sound


def test_a_rotten_pack_in_the_store_never_reaches_the_cache(kernelforge: Kernelforge, release: Release) -> None:
    pack = release.lock.packs["h200-sxm"].blob
    file = release.folder / "store" / blob_name(pack.stored_digest)
    damaged = bytearray(file.read_bytes())
    damaged[100] ^= 1
    file.write_bytes(damaged)
    ran = kernelforge("pull", release.lock_path, *STORE, *CACHE, "--trust-file", "--device", "h200-sxm")
    assert ran.code == 3
    assert not list((release.folder / "cache").rglob("*.so"))


def test_a_store_without_the_pack_is_named(kernelforge: Kernelforge, release: Release) -> None:
    ran = kernelforge("pull", release.lock_path, "--store", "file:elsewhere", *CACHE, "--trust-file")
    assert ran.code == 3
    assert "elsewhere" in ran.err


def test_a_cache_that_cannot_be_written_is_a_failed_pull(kernelforge: Kernelforge, release: Release) -> None:
    """A load may do without a file; a pull that leaves none must not look like a success."""
    (release.folder / "taken").write_text("a file")
    ran = kernelforge("pull", release.lock_path, *STORE, "--cache", "taken/cache", "--trust-file")
    assert ran.code == 3
    assert "give another --cache" in ran.err


def test_the_cache_folder_of_the_loader_is_the_default(kernelforge: Kernelforge, release: Release) -> None:
    """Else a pull would fill one folder and the pod would look into another."""
    folder = release.folder / "by-variable"
    ran = kernelforge("pull", release.lock_path, *STORE, "--trust-file", KERNELFORGE_CACHE=str(folder))
    assert ran.code == 0, ran.err
    assert len(list((folder / "packs").iterdir())) == 2
