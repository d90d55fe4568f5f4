"""The command sign: keys from files and variables, signatures beside the lockfile and in a store."""

from __future__ import annotations

import json
import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kernelforge.cli.source_state import source_state
from kernelforge.release.envelope import open_envelope
from kernelforge.release.keys import SigningKey, read_public_key
from kernelforge.release.provenance import SourceState
from kernelforge.release.signature import signature_path
from kernelforge.release.statement import PAYLOAD_TYPE, Statement
from kernelforge.store.layout import blob_name, lock_name, signature_name
from tests.cli.command import Ran
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release
from tests.release.signed import OURS

STORE = ("--store", "file:store")
PEM = OURS.to_pem().decode()
SECRET = PEM.splitlines()[1]


@pytest.fixture
def key(release: Release) -> Path:
    """The private key of the tests, in a file."""
    path = release.folder / "release.key"
    path.write_text(PEM)
    path.chmod(0o600)
    return path


def git(release: Release, *arguments: str) -> str:
    command = ["git", "-C", str(release.folder), "-c", "user.name=x", "-c", "user.email=x@y", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(release: Release) -> Release:
    """The release in a repository that has its manifest, and ignores keys and the store."""
    git(release, "init", "-q")
    (release.folder / ".gitignore").write_text("store/\n*.key\n")
    git(release, "add", ".gitignore", "small.yaml")
    git(release, "commit", "-q", "-m", "sources")
    return release


def signed(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def stated(release: Release) -> Statement:
    """What was signed, as it stands beside the lockfile."""
    data = signature_path(release.lock_path, OURS.public.key_id).read_bytes()
    payload = open_envelope(data, payload_type=PAYLOAD_TYPE, trusted=[OURS.public], where="")
    return Statement.parse(payload, where="")


class TestNewKey:
    def test_a_new_key_signs_and_its_public_half_is_trusted(self, kernelforge: Kernelforge, release: Release) -> None:
        assert kernelforge("sign", "--new-key", "a.key").code == 0
        private, public = release.folder / "a.key", release.folder / "a.key.pub"
        assert private.stat().st_mode & 0o777 == 0o600
        assert SigningKey.from_pem(private.read_bytes()).public == read_public_key(public)
        assert kernelforge("sign", release.lock_path, "--key", "a.key").code == 0
        assert kernelforge("verify", release.lock_path, *STORE, "--key", "a.key.pub").code == 0

    @pytest.mark.parametrize("taken", ["a.key", "a.key.pub"])
    def test_no_key_is_written_over(self, kernelforge: Kernelforge, release: Release, taken: str) -> None:
        (release.folder / taken).write_text("a key that is in use")
        ran = kernelforge("sign", "--new-key", "a.key")
        assert ran.code == 2
        assert taken in ran.err
        assert (release.folder / taken).read_text() == "a key that is in use"
        assert len(list(release.folder.glob("a.key*"))) == 1

    def test_the_private_key_is_not_shown(self, kernelforge: Kernelforge, release: Release) -> None:
        ran = kernelforge("-vv", "sign", "--new-key", "a.key", "--json")
        assert (release.folder / "a.key").read_text().splitlines()[1] not in ran.out + ran.err

    def test_making_a_key_signs_nothing(self, kernelforge: Kernelforge, release: Release) -> None:
        assert kernelforge("sign", release.lock_path, "--new-key", "a.key").code == 2
        assert not (release.folder / "a.key").exists()


class TestKey:
    def test_the_variable_has_the_text_or_a_path(self, kernelforge: Kernelforge, release: Release, key: Path) -> None:
        for value in (PEM, str(key)):
            ran = kernelforge("sign", release.lock_path, "--renew", "--json", KERNELFORGE_SIGNING_KEY=value)
            assert signed(ran)["key"] == OURS.public.key_id

    def test_without_a_key_nothing_is_signed(self, kernelforge: Kernelforge, release: Release) -> None:
        ran = kernelforge("sign", release.lock_path)
        assert ran.code == 2
        assert "--new-key" in ran.err
        assert not signature_path(release.lock_path, OURS.public.key_id).parent.exists()

    @pytest.mark.parametrize("mode", [0o604, 0o644, 0o620, 0o602])
    def test_a_key_that_others_can_have_is_refused(
        self, kernelforge: Kernelforge, release: Release, key: Path, mode: int
    ) -> None:
        key.chmod(mode)
        for arguments, environment in ((("--key", key), {}), ((), {"KERNELFORGE_SIGNING_KEY": str(key)})):
            ran = kernelforge("sign", release.lock_path, *arguments, **environment)
            assert (ran.code, "chmod 600" in ran.err) == (2, True)

    def test_a_secret_that_the_group_reads_is_taken(
        self, kernelforge: Kernelforge, release: Release, key: Path
    ) -> None:
        """How secrets are mounted for a user that is not root."""
        key.chmod(0o440)
        assert kernelforge("sign", release.lock_path, "--key", key).code == 0

    @pytest.mark.parametrize(
        "value",
        [SECRET, PEM[:-30], PEM.replace("PRIVATE", "SECRET"), f"-----BEGIN{SECRET}", "/nowhere/a.key"],
        ids=["raw", "cut", "other kind", "no armour", "path"],  # the key is new in each process
    )
    def test_no_message_quotes_what_may_be_a_key(
        self, kernelforge: Kernelforge, release: Release, value: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        ran = kernelforge("-vv", "sign", release.lock_path, KERNELFORGE_SIGNING_KEY=value)
        assert ran.code == 2
        assert "KERNELFORGE_SIGNING_KEY: " in ran.err
        assert SECRET[:20] not in ran.out + ran.err + caplog.text
        assert "Traceback" not in ran.err

    def test_a_key_on_the_command_line_is_refused_unquoted(self, kernelforge: Kernelforge, release: Release) -> None:
        ran = kernelforge("sign", release.lock_path, "--key", PEM)
        assert ran.code == 2
        assert SECRET not in ran.err

    def test_a_public_key_does_not_sign(self, kernelforge: Kernelforge, release: Release) -> None:
        (release.folder / "a.pub").write_bytes(OURS.public.to_pem())
        (release.folder / "a.pub").chmod(0o600)
        assert "no private key" in kernelforge("sign", release.lock_path, "--key", "a.pub").err


class TestSignature:
    def test_it_says_where_the_release_comes_from(self, kernelforge: Kernelforge, checkout: Release, key: Path) -> None:
        options = ("--key", key, "--domain", "release", "--builder", "urn:ci:42", "--expires-days", "30")
        document = signed(kernelforge("sign", checkout.lock_path, *options, "--json"))
        statement = stated(checkout)
        assert document["source"] == {"commit": git(checkout, "rev-parse", "HEAD"), "dirty": False}
        assert statement.lock == checkout.lock.digest
        assert statement.expires is not None
        assert (statement.expires - statement.issued).days == 30
        assert (statement.provenance.domain, statement.provenance.builder) == ("release", "urn:ci:42")
        assert set(statement.provenance.toolchains["cu13"]) >= {"nvidia-cutlass-dsl", "apache-tvm-ffi"}

    @pytest.mark.parametrize("change", ["edited", "untracked", "outputs", "ignored"])
    def test_changes_that_are_in_no_commit_are_told(
        self, kernelforge: Kernelforge, checkout: Release, key: Path, change: str
    ) -> None:
        """The lockfile and what stands beside it are what a build makes: they are new whenever they are signed."""
        name = {"edited": "small.yaml", "untracked": "kernel.py", "outputs": "", "ignored": "my.key"}[change]
        if name:
            with (checkout.folder / name).open("a") as file:
                file.write("\n")
        ran = kernelforge("sign", checkout.lock_path, "--key", key, "--json")
        assert signed(ran)["source"]["dirty"] is (change in ("edited", "untracked"))
        assert ("has changes" in ran.err) is (change in ("edited", "untracked"))

    def test_outside_of_a_repository_the_source_is_unknown_and_that_is_said(
        self, kernelforge: Kernelforge, release: Release, key: Path
    ) -> None:
        ran = kernelforge("sign", release.lock_path, "--key", key, "--json", GIT_CEILING_DIRECTORIES="/")
        assert signed(ran)["source"] is None
        assert "will name no source" in ran.err
        ran = kernelforge("sign", release.lock_path, "--key", key, "--renew", "--json", PATH="/nowhere")
        assert signed(ran)["source"] is None
        assert "git" in ran.err

    def test_signing_again_changes_nothing(self, kernelforge: Kernelforge, release: Release, key: Path) -> None:
        kernelforge("sign", release.lock_path, "--key", key, *STORE)
        before = {path: path.read_bytes() for path in release.folder.rglob("*") if path.is_file()}
        ran = kernelforge("sign", release.lock_path, "--key", key, *STORE, "--expires-days", "3")
        assert (ran.code, "--renew" in ran.out) == (0, True)
        assert {path: path.read_bytes() for path in release.folder.rglob("*") if path.is_file()} == before
        assert kernelforge("sign", release.lock_path, "--key", key, *STORE, "--expires-days", "3", "--renew").code == 0
        assert stated(release).expires is not None

    def test_the_store_gets_lockfile_and_signature(self, kernelforge: Kernelforge, release: Release, key: Path) -> None:
        release.store.delete(lock_name(release.lock.digest))
        assert signed(kernelforge("sign", release.lock_path, "--key", key, *STORE, "--json"))["is_published"]
        assert release.store.get(lock_name(release.lock.digest), limit_bytes=1 << 20) == release.lock.to_bytes()
        beside = signature_path(release.lock_path, OURS.public.key_id).read_bytes()
        name = signature_name(release.lock.digest, OURS.public.key_id)
        assert release.store.get(name, limit_bytes=1 << 20) == beside

    def test_what_the_store_cannot_serve_is_not_published(
        self, kernelforge: Kernelforge, release: Release, key: Path
    ) -> None:
        release.store.delete(lock_name(release.lock.digest))
        release.store.delete(blob_name(release.lock.packs["b200"].blob.stored_digest))
        assert kernelforge("sign", release.lock_path, "--key", key, *STORE).code == 3
        assert not [name for name in release.store.names("v1/locks/") if ".about/" not in name]

    def test_only_the_pinned_lockfile_is_signed(self, kernelforge: Kernelforge, release: Release, key: Path) -> None:
        """What was reviewed, when the file came from another job."""
        assert kernelforge("sign", release.lock_path, "--key", key, "--pin", "sha256:" + "0" * 64).code == 3
        assert not signature_path(release.lock_path, OURS.public.key_id).exists()
        assert kernelforge("sign", release.lock_path, "--key", key, "--pin", release.lock.digest).code == 0

    @pytest.mark.parametrize("change", [lambda data: data + b"\n", lambda data: data[:-2], lambda data: b""])
    def test_what_no_build_wrote_is_not_signed(
        self, kernelforge: Kernelforge, release: Release, key: Path, change: Any
    ) -> None:
        release.lock_path.write_bytes(change(release.lock_path.read_bytes()))
        assert kernelforge("sign", release.lock_path, "--key", key).code == 2
        assert not signature_path(release.lock_path, OURS.public.key_id).exists()


def test_a_lockfile_with_an_odd_name_is_no_change_of_the_source(checkout: Release) -> None:
    """Names reach git as they are, never as patterns that would hide other files."""
    odd, registry = checkout.folder / "a*[b] :(top).lock.json", checkout.folder / "registry"
    odd.write_bytes(b"{}")
    commit = git(checkout, "rev-parse", "HEAD")
    assert source_state(checkout.folder, besides=[odd, registry]) == SourceState(commit, is_dirty=False)
    (checkout.folder / "axb :(top).lock.json").write_bytes(b"{}")
    assert source_state(checkout.folder, besides=[odd, registry]) == SourceState(commit, is_dirty=True)
