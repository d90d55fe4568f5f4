"""``kernelforge bundle``: a release leaves a store as a file, and a pod without a store lives from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.in_process import Kernelforge
from tests.cli.released import Release
from tests.release.signed import OURS, STRANGER, signature

STORE = ("--store", "file:store")


@pytest.fixture
def key(release: Release) -> Path:
    """A trusted key, whose signature lies beside the lockfile."""
    beside = release.lock_path.with_name(release.lock_path.name.removesuffix(".lock.json") + ".sig")
    beside.mkdir()
    (beside / f"{OURS.public.key_id}.dsse.json").write_bytes(signature(release.lock.digest))
    path = release.folder / "ours.pub"
    path.write_bytes(OURS.public.to_pem())
    return path


def test_a_bundle_is_pulled_and_verified_with_no_store(kernelforge: Kernelforge, release: Release, key: Path) -> None:
    ran = kernelforge("bundle", release.lock_path, "-o", "x.bundle", *STORE, "--json")
    assert ran.code == 0
    assert json.loads(ran.out) == {
        "schema": "kernelforge.bundled/1",
        "path": "x.bundle",
        "lock": str(release.lock.digest),
        "size_bytes": (release.folder / "x.bundle").stat().st_size,
        "signatures": 1,
    }
    nowhere = ("--store", "file:nowhere")
    assert kernelforge("verify", "x.bundle", "--key", key, *nowhere).code == 0
    pulled = kernelforge("pull", "x.bundle", "--key", key, "--cache", "cache", *nowhere, "--json")
    assert {pack["source"] for pack in json.loads(pulled.out)["packs"].values()} <= {"store", "cache"}


def test_a_bundle_is_imported_into_an_empty_store(kernelforge: Kernelforge, release: Release, key: Path) -> None:
    assert kernelforge("bundle", release.lock_path, "-o", "x.bundle", *STORE, "--with-objects").code == 0
    assert kernelforge("bundle", "--import", "x.bundle", "--store", "file:other", "--key", key).code == 0
    assert kernelforge("verify", release.lock_path, "--deep", "--store", "file:other", "--key", key).code == 0
    again = kernelforge("bundle", str(release.lock.digest), "-o", "y.bundle", "--store", "file:other", "--with-objects")
    assert again.code == 0
    assert (release.folder / "x.bundle").read_bytes() == (release.folder / "y.bundle").read_bytes()


def test_what_nobody_vouches_for_is_not_imported(kernelforge: Kernelforge, release: Release, key: Path) -> None:
    kernelforge("bundle", release.lock_path, "-o", "x.bundle", *STORE, "--with-objects")
    key.write_bytes(STRANGER.public.to_pem())
    for trust, code in (((), 2), (("--key", key), 3), (("--pin", "sha256:" + "0" * 64), 3)):
        assert kernelforge("bundle", "--import", "x.bundle", "--store", "file:other", *trust).code == code
        assert not (release.folder / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give LOCKFILE and -o"),
        (("small.lock.json",), "give LOCKFILE and -o"),
        (("--import", "x", "-o", "y"), "nothing that makes one"),
        (("--import", "small.yaml", "--trust-file"), "not a bundle"),
        (("none.lock.json", "-o", "y"), "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_said(kernelforge: Kernelforge, arguments: tuple[str, ...], words: str) -> None:
    ran = kernelforge("bundle", *arguments)
    assert (ran.code, words in ran.err) == (2, True)
