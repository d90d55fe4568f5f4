"""The command that moves channels, on a store that has a signed release."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from kernelforge.cli import promote as promote_command
from kernelforge.cli.signing_key import write_new_key
from kernelforge.lockfile import Lockfile
from kernelforge.release.keys import SigningKey
from kernelforge.release.publish import publish_lockfile
from kernelforge.store.layout import blob_name, ref_log_name, ref_name
from tests.cli.command import Ran
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release
from tests.release.channel_world import sign

NOW = datetime(2027, 1, 31, 12, 0, tzinfo=timezone.utc)


class Promote:
    """``promote("prod", lock)`` with the release's store and key, at ``now``."""

    def __init__(self, kernelforge: Kernelforge, release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
        self._kernelforge = kernelforge
        self.release = release
        self.now = NOW
        self.key = write_new_key(release.folder / "release.key")
        monkeypatch.setattr(promote_command, "_now", lambda: self.now)
        for variable in ("KERNELFORGE_SIGNING_KEY", "KERNELFORGE_TRUSTED_KEYS"):
            monkeypatch.delenv(variable, raising=False)

    def __call__(self, *arguments: object, key: str = "--key=release.key", **environment: str) -> Ran:
        given = ["promote", "--store", "file:store", *([key] if key else []), *arguments]
        return self._kernelforge(*given, **environment)

    def another(self, number: int = 1, *, domain: str = "release", key: SigningKey | None = None) -> Lockfile:
        """Publish and sign one more lockfile with the same objects."""
        lock = replace(self.release.lock, toolchains={"cu13": {"flavour": "cu13", "compiler": str(number)}})
        publish_lockfile(lock, self.release.store, facts=None)
        sign(self.release.store, lock, key=key or self.key, domain=domain)
        return lock


@pytest.fixture
def promote(kernelforge: Kernelforge, release: Release, monkeypatch: pytest.MonkeyPatch) -> Promote:
    made = Promote(kernelforge, release, monkeypatch)
    sign(release.store, release.lock, key=made.key)
    return made


@pytest.mark.parametrize("channel", ["prod", "small/prod"])
@pytest.mark.parametrize("as_digest", [False, True])
def test_a_channel_points_at_a_lockfile(promote: Promote, channel: str, as_digest: bool) -> None:
    lock = promote.release.lock
    ran = promote(channel, lock.digest if as_digest else promote.release.lock_path, "--actor", "ann")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"small/prod points at {lock.digest} (serial 1, until 2027-05-01T12:00:00Z)\n"
    assert promote.release.store.size(ref_name("small", "prod")) > 0


def test_json_says_all_of_it(promote: Promote) -> None:
    ran = promote("prod", promote.release.lock_path, "--json", "--actor", "ann", "--reason", "it is time")
    assert ran.report == {
        "schema": "kernelforge.promotion/1",
        "dry_run": False,
        "move": {
            "deployment": "small",
            "channel": "prod",
            "serial": 1,
            "lock": str(promote.release.lock.digest),
            "issued": "2027-01-31T12:00:00Z",
            "expires": "2027-05-01T12:00:00Z",
            "previous": None,
            "restored": None,
            "back_to": None,
            "actor": "ann",
            "reason": "it is time",
        },
        "warnings": [],
    }


def test_back_and_the_history(promote: Promote) -> None:
    old, new = promote.release.lock, promote.another()
    promote("prod", old.digest, "--actor", "ann")
    promote("prod", new.digest, "--actor", "bob", "--reason", "faster")
    promote("prod", new.digest, "--actor", "bob")
    ran = promote("small/prod", "--rollback", "--actor", "eve", "--reason", "slower")
    assert (ran.code, ran.err) == (0, "")
    assert f"small/prod points at {old.digest} (serial 4" in ran.out
    shown = promote("small/prod", "--history")
    assert (shown.code, shown.err) == (0, "")
    assert [line.split(maxsplit=3) for line in shown.out.splitlines()] == [
        ["4", "2027-01-31T12:00:00Z", f"sha256:{old.digest.short}...", "rollback to 1     by eve: slower"],
        ["3", "2027-01-31T12:00:00Z", f"sha256:{new.digest.short}...", "renewed           by bob"],
        ["2", "2027-01-31T12:00:00Z", f"sha256:{new.digest.short}...", "promoted          by bob: faster"],
        ["1", "2027-01-31T12:00:00Z", f"sha256:{old.digest.short}...", "promoted          by ann"],
    ]
    document = promote("small/prod", "--history", "--json").report
    assert document["channel"] == "small/prod"
    assert [move["move"]["lock"] for move in document["moves"]] == [str(lock.digest) for lock in (old, new, new, old)]


@pytest.mark.parametrize("goal", ["1", "lock"])
def test_back_to_a_chosen_one(promote: Promote, goal: str) -> None:
    for lock in (promote.release.lock, promote.another(1), promote.another(2)):
        assert promote("prod", lock.digest).code == 0
    to = promote.release.lock.digest if goal == "lock" else goal
    ran = promote("small/prod", "--rollback", "--to", to, "--json")
    assert ran.report["move"]["lock"] == str(promote.release.lock.digest)
    assert ran.report["move"]["restored"] == 1


def test_history_needs_no_private_key(promote: Promote) -> None:
    promote("prod", promote.release.lock_path)
    assert promote("small/prod", "--history", "--trusted-key", "release.key.pub", key="").code == 0
    trusted = {"KERNELFORGE_TRUSTED_KEYS": "release.key.pub"}
    assert promote("small/prod", "--history", key="", **trusted).code == 0


def test_the_key_may_be_in_the_environment(promote: Promote) -> None:
    pem = (promote.release.folder / "release.key").read_text()
    ran = promote("prod", promote.release.lock_path, key="", KERNELFORGE_SIGNING_KEY=pem)
    assert ran.code == 0
    assert pem.splitlines()[1] not in ran.out + ran.err


def test_builds_may_be_signed_with_another_key(promote: Promote) -> None:
    """The refs are signed by whoever moves the channel, and read with that key beside the trusted ones."""
    builder = write_new_key(promote.release.folder / "builder.key")
    lock = promote.another(key=builder)
    assert promote("prod", lock.digest).code == 3
    for _ in range(2):
        assert promote("prod", lock.digest, "--trusted-key", "builder.key.pub").code == 0


def test_what_a_pull_request_built_is_not_promoted(promote: Promote) -> None:
    lock = promote.another(domain="dev")
    ran = promote("small/prod", lock.digest)
    assert ran.code == 1
    assert "was built in the domain 'dev'" in ran.err
    assert "--allow-domain dev" in ran.err
    assert ref_name("small", "prod") not in list(promote.release.store.names())
    assert promote("small/prod", lock.digest, "--allow-domain", "dev").code == 0


def test_a_lockfile_of_another_deployment_is_not_promoted(promote: Promote) -> None:
    ran = promote("other/prod", promote.release.lock_path)
    assert ran.code == 1
    assert "is a lockfile of small, not of other" in ran.err


def test_an_incomplete_release_is_not_promoted(promote: Promote) -> None:
    promote.release.store.delete(blob_name(promote.release.lock.entries[0].object.stored_digest))
    ran = promote("prod", promote.release.lock_path)
    assert ran.code == 3
    assert "1 of its " in ran.err


def test_a_dry_run_checks_and_writes_nothing(promote: Promote) -> None:
    before = sorted(promote.release.store.names())
    ran = promote("prod", promote.release.lock_path, "--dry-run")
    assert ran.code == 0
    assert "small/prod would point at" in ran.out
    assert sorted(promote.release.store.names()) == before
    assert promote("prod", promote.another(domain="dev").digest, "--dry-run").code == 1


@pytest.mark.parametrize(("days", "says"), [(75, ""), (77, "ends at"), (90, "ended at")])
def test_a_ref_that_ends_soon_is_told(promote: Promote, days: int, says: str) -> None:
    promote("prod", promote.release.lock_path)
    promote.now += timedelta(days=days)
    ran = promote("small/prod", "--history")
    assert ran.code == 0
    assert (says in ran.err) if says else not ran.err
    assert f"kernelforge promote small/prod {promote.release.lock.digest}" in ran.err or not says


def test_a_short_life_is_told_at_once(promote: Promote) -> None:
    ran = promote("prod", promote.release.lock_path, "--expires-days", "13", "--json")
    assert ran.report["move"]["expires"] == "2027-02-13T12:00:00Z"
    assert "warning:" in ran.err
    assert len(ran.report["warnings"]) == 1


def test_a_forged_line_shows_in_the_exit_code(promote: Promote) -> None:
    for lock in (promote.release.lock, promote.another()):
        promote("prod", lock.digest)
    name, store = ref_log_name("small", "prod", 1), promote.release.store
    line = json.loads(store.get(name, limit_bytes=1 << 20))
    store.delete(name)
    store.create(name, json.dumps({**line, "actor": "nobody"}).encode())
    ran = promote("small/prod", "--history")
    assert ran.code == 1
    assert "not to be trusted" in ran.out.splitlines()[1]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["prod"], "one thing at a time"),
        (["prod", "x.lock.json", "--rollback"], "one thing at a time"),
        (["prod", "--rollback", "--history"], "one thing at a time"),
        (["prod", "x.lock.json", "--to", "1"], "--to says how far"),
        (["prod", "--rollback"], "write DEPLOYMENT/prod"),
        (["prod", "--history"], "write DEPLOYMENT/prod"),
        (["small/prod", "--rollback", "--to", "first"], "neither a serial nor a digest"),
        (["small/prod", "--rollback", "--to", "sha256:12"], "is not a digest"),
        (["small/prod", "absent.lock.json"], "cannot be read"),
        (["small/a/b", "sha256:" + 64 * "0"], "cannot name a channel"),
        (["small/prod", "sha256:" + 64 * "0", "--reason", "two\nlines"], "one printable line"),
    ],
    ids=str,
)
def test_a_question_that_makes_no_sense(promote: Promote, arguments: list[str], problem: str) -> None:
    ran = promote(*arguments)
    assert ran.code == 2
    assert problem in ran.err


def test_a_channel_that_was_never_moved_has_no_history(promote: Promote) -> None:
    ran = promote("small/prod", "--history")
    assert ran.code == 3
    assert "never been moved" in ran.err


def test_no_key_is_an_error_with_a_hint(promote: Promote) -> None:
    ran = promote("prod", promote.release.lock_path, key="")
    assert ran.code == 2
    assert "--key" in ran.err


def test_the_lockfile_that_was_reviewed_is_the_one_that_counts(promote: Promote, tmp_path: Path) -> None:
    """The path names a digest; whether the store has it is another question."""
    changed = tmp_path / "small.lock.json"
    lock = replace(promote.release.lock, toolchains={"cu13": {"flavour": "cu13"}})
    changed.write_bytes(lock.to_bytes())
    ran = promote("prod", changed)
    assert ran.code == 3
    assert lock.digest.hex in ran.err
