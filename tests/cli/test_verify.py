"""The command verify: may this lockfile be served from here?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.store.layout import blob_name
from tests.cli.command import Ran, write_manifest
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release

STORE = ("--store", "file:store")


def kinds(ran: Ran) -> list[str]:
    document = json.loads(ran.out)
    assert document["may_be_served"] is (not document["findings"]) is (ran.code == 0)
    return [finding["kind"] for finding in document["findings"]]


def blobs(release: Release, digest: Digest) -> Path:
    return release.folder / "store" / blob_name(digest)


@pytest.fixture
def pack_files(release: Release) -> list[Path]:
    return [blobs(release, pack.blob.stored_digest) for pack in release.lock.packs.values()]


@pytest.fixture
def object_files(release: Release) -> list[Path]:
    return [blobs(release, entry.object.stored_digest) for entry in release.lock.entries]


@pytest.mark.parametrize(
    "options", [(), ("--deep",), ("--manifest", "small.yaml"), ("--deep", "--manifest", "small.yaml")]
)
def test_a_sound_release_may_be_served(kernelforge: Kernelforge, release: Release, options: tuple[str, ...]) -> None:
    ran = kernelforge("verify", release.lock_path, *STORE, *options)
    assert ran.code == 0, ran.out + ran.err
    assert f"may be served from here ({release.lock.digest})" in ran.out
    assert kinds(kernelforge("verify", release.lock_path, *STORE, *options, "--json")) == []


def test_a_missing_pack_is_found(kernelforge: Kernelforge, release: Release, pack_files: list[Path]) -> None:
    for file in pack_files:
        file.unlink()
    ran = kernelforge("verify", release.lock_path, *STORE)
    assert ran.code == 1
    assert "pack of h200-sxm" in ran.out
    assert "pack of b200" in ran.out
    assert kinds(kernelforge("verify", release.lock_path, *STORE, "--json")) == ["missing-blob"] * 2


def test_only_the_packs_of_the_cards_that_are_asked_for(kernelforge: Kernelforge, release: Release) -> None:
    pack = release.lock.packs["b200"].blob
    blobs(release, pack.stored_digest).unlink()
    for device, expected in (("h200-sxm", []), ("b200", ["missing-blob"])):
        for options in (("--device", device), ("--device", device, "--deep")):
            assert kinds(kernelforge("verify", release.lock_path, *STORE, *options, "--json")) == expected
    assert kernelforge("verify", release.lock_path, *STORE, KERNELFORGE_DEVICE="h200-sxm").code == 0


def test_a_truncated_pack_is_found_without_reading_it(
    kernelforge: Kernelforge, release: Release, pack_files: list[Path]
) -> None:
    pack_files[0].write_bytes(pack_files[0].read_bytes()[:-1])
    assert kinds(kernelforge("verify", release.lock_path, *STORE, "--json")) == ["corrupt-blob"]


def test_a_lost_and_a_rotten_object_are_found_by_deep_alone(
    kernelforge: Kernelforge, release: Release, object_files: list[Path]
) -> None:
    object_files[0].unlink()
    damaged = bytearray(object_files[1].read_bytes())
    damaged[len(damaged) // 2] ^= 1
    object_files[1].write_bytes(damaged)
    assert kinds(kernelforge("verify", release.lock_path, *STORE, "--json")) == []
    ran = kernelforge("verify", release.lock_path, *STORE, "--deep", "--json")
    assert sorted(kinds(ran)) == ["corrupt-blob", "missing-blob"]


def test_another_store_has_nothing(kernelforge: Kernelforge, release: Release) -> None:
    """And asking it makes no folder."""
    assert kernelforge("verify", release.lock_path, "--store", "file:elsewhere").code == 1
    assert not (release.folder / "elsewhere").exists()


def test_a_store_that_cannot_answer_is_no_finding(kernelforge: Kernelforge, release: Release) -> None:
    """Case F2: trouble is not absence."""
    (release.folder / "elsewhere").mkdir()
    (release.folder / "elsewhere" / "v1").write_text("a file where a folder must be")
    ran = kernelforge("verify", release.lock_path, "--store", "file:elsewhere")
    assert ran.code == 3
    assert not ran.out


def test_the_right_pin_passes(kernelforge: Kernelforge, release: Release) -> None:
    assert kernelforge("verify", release.lock_path, *STORE, "--pin", release.lock.digest).code == 0
    assert kernelforge("verify", release.lock_path, *STORE, KERNELFORGE_PIN=str(release.lock.digest)).code == 0


def test_of_a_lockfile_that_is_not_pinned_nothing_else_is_believed(kernelforge: Kernelforge, release: Release) -> None:
    """Not even that it is JSON: whatever it says, it is not the one that was asked about."""
    release.lock_path.write_bytes(b"not a lockfile at all")
    ran = kernelforge("verify", release.lock_path, *STORE, "--pin", release.lock.digest, "--json")
    assert kinds(ran) == ["pin"]
    assert str(release.lock.digest) in ran.out


@pytest.mark.parametrize("data", [None, b"", b"{}", b"[]", b"\xff"])
def test_what_is_no_lockfile_is_bad_input(kernelforge: Kernelforge, release: Release, data: bytes | None) -> None:
    release.lock_path.unlink()
    if data is not None:
        release.lock_path.write_bytes(data)
    ran = kernelforge("verify", release.lock_path, *STORE)
    assert ran.code == 2
    assert not ran.out
    assert "small.lock.json" in ran.err


@pytest.mark.parametrize("pin", ["", "sha256:abc", "latest"])
def test_a_pin_that_is_no_digest_is_never_ignored(kernelforge: Kernelforge, release: Release, pin: str) -> None:
    """An empty one may come from an unset variable in a script: taking it for 'no pin' would trust everything."""
    assert kernelforge("verify", release.lock_path, *STORE, "--pin", pin).code == 2


def test_keys_of_the_manifest_that_are_not_locked_are_found(kernelforge: Kernelforge, release: Release) -> None:
    wider = write_manifest(
        release.folder, ("Copy", "{width: {choices: [32, 64, 96]}}"), name="wider", targets="[h200-sxm]"
    )
    ran = kernelforge("verify", release.lock_path, *STORE, "--manifest", wider, "--json")
    assert kinds(ran) == ["missing-key"]


def test_keys_that_were_built_from_other_sources_are_found(kernelforge: Kernelforge, release: Release) -> None:
    entries = tuple(replace(entry, key_digest=Digest.of(b"older")) for entry in release.lock.entries)
    release.rewrite(replace(release.lock, entries=entries))
    ran = kernelforge("verify", release.lock_path, *STORE, "--manifest", release.manifest, "--json")
    assert kinds(ran) == ["stale-key"] * 4


def test_launch_code_that_changed_is_found(kernelforge: Kernelforge, release: Release) -> None:
    """No key changes when dispatch does, and yet every pod would refuse to bind the class."""
    kernels = {
        name: replace(kernel, launch_fingerprint=Digest.of(b"older")) for name, kernel in release.lock.kernels.items()
    }
    release.rewrite(replace(release.lock, kernels=kernels))
    ran = kernelforge("verify", release.lock_path, *STORE, "--manifest", release.manifest, "--json")
    assert kinds(ran) == ["stale-launch-code"]


class TestLocal:
    """--local asks the cache of the pod and nothing else."""

    @pytest.fixture
    def cache(self, kernelforge: Kernelforge, release: Release) -> Path:
        pulled = kernelforge("pull", release.lock_path, *STORE, "--trust-file", "--cache", "cache")
        assert pulled.code == 0, pulled.err
        return release.folder / "cache"

    def verify(self, kernelforge: Kernelforge, release: Release, *options: object) -> Ran:
        return kernelforge("verify", release.lock_path, "--local", "--cache", "cache", "--json", *options)

    def test_after_a_pull_no_store_is_needed(self, kernelforge: Kernelforge, release: Release, cache: Path) -> None:
        assert kinds(self.verify(kernelforge, release, "--store", "s3://no-such-bucket")) == []

    def test_an_empty_cache_lacks_every_pack(self, kernelforge: Kernelforge, release: Release) -> None:
        assert kinds(self.verify(kernelforge, release, *STORE)) == ["missing-blob"] * 2

    def test_a_flipped_bit_is_found_without_deep(self, kernelforge: Kernelforge, release: Release, cache: Path) -> None:
        file = min((cache / "packs").iterdir())
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        assert kinds(self.verify(kernelforge, release)) == ["corrupt-blob"]

    def test_a_longer_file_is_found(self, kernelforge: Kernelforge, release: Release, cache: Path) -> None:
        file = min((cache / "packs").iterdir())
        file.write_bytes(file.read_bytes() + b"\0")
        assert kinds(self.verify(kernelforge, release)) == ["corrupt-blob"]

    def test_a_folder_in_the_place_of_a_pack_is_found(
        self, kernelforge: Kernelforge, release: Release, cache: Path
    ) -> None:
        file = min((cache / "packs").iterdir())
        file.unlink()
        file.mkdir()
        assert kinds(self.verify(kernelforge, release)) == ["corrupt-blob"]

    def test_a_cache_that_others_can_write_to_serves_nothing(
        self, kernelforge: Kernelforge, release: Release, cache: Path
    ) -> None:
        cache.chmod(0o777)
        ran = self.verify(kernelforge, release)
        assert kinds(ran) == ["unsafe-cache"]
        assert "chmod 700" in ran.out

    def test_a_pod_asks_for_the_pack_of_its_own_card_alone(self, kernelforge: Kernelforge, release: Release) -> None:
        """A pod pulls one pack; readiness must neither ask for those of other cards nor pass without its own."""
        kernelforge("pull", release.lock_path, *STORE, "--trust-file", "--cache", "cache", "--device", "h200-sxm")
        assert kinds(self.verify(kernelforge, release)) == ["missing-blob"]
        assert kinds(self.verify(kernelforge, release, "--device", "h200-sxm")) == []
        assert kinds(self.verify(kernelforge, release, "--device", "b200")) == ["missing-blob"]

    def test_a_card_that_the_lockfile_lacks_is_bad_input(self, kernelforge: Kernelforge, release: Release) -> None:
        ran = self.verify(kernelforge, release, "--device", "h100-sxm")
        assert (ran.code, "b200, h200-sxm" in ran.err) == (2, True)

    def test_read_only_mounts_count_as_for_a_load(
        self, kernelforge: Kernelforge, release: Release, cache: Path
    ) -> None:
        """The load looks there first, so a pod that has all of it mounted is ready without any cache."""
        options = ("verify", release.lock_path, "--local", "--json")
        ran = kernelforge(*options, HOME="", XDG_CACHE_HOME="", KERNELFORGE_MOUNTS=str(cache))
        assert kinds(ran) == []
        ran = kernelforge(*options, "--cache", "empty", KERNELFORGE_MOUNTS=str(release.folder / "nowhere"))
        assert kinds(ran) == ["missing-blob"] * 2

    def test_it_writes_nothing(self, kernelforge: Kernelforge, release: Release) -> None:
        """Readiness is asked every few seconds, in a pod whose volume is read-only."""
        before = sorted(release.folder.rglob("*"))
        assert self.verify(kernelforge, release).code == 1
        assert sorted(release.folder.rglob("*")) == before

    def test_without_any_cache_folder_the_question_makes_no_sense(
        self, kernelforge: Kernelforge, release: Release
    ) -> None:
        ran = kernelforge("verify", release.lock_path, "--local", HOME="", XDG_CACHE_HOME="")
        assert ran.code == 2
        assert "KERNELFORGE_CACHE" in ran.err
