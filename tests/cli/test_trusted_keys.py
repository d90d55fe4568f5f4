"""``verify`` and ``pull`` of lockfiles that are trusted because somebody signed them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.release import refs
from kernelforge.release.envelope import seal
from kernelforge.release.keys import SigningKey
from kernelforge.release.signature import signature_path
from kernelforge.store.layout import lock_name, ref_name, signature_name
from tests.cli.command import Ran
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release
from tests.release.signed import HOUR, NEXT, OURS, STRANGER, signature

STORE = ("--store", "file:store")
CACHE = ("--cache", "cache")
DEVICE = ("--device", "h200-sxm")
CHANNEL = ("--channel", "small/prod")
TODAY = datetime.now(timezone.utc)


@dataclass(frozen=True)
class Signed:
    """A release whose lockfile is signed, beside the file and in the store; ``ours`` and so on are ``.pub`` files."""

    release: Release
    ours: Path
    next: Path
    stranger: Path

    @property
    def digest(self) -> Digest:
        return self.release.lock.digest

    def put(self, envelope: bytes, key: SigningKey = OURS) -> None:
        """What stands in the place of the signature by ``key``."""
        beside = signature_path(self.release.lock_path, key.public.key_id)
        beside.parent.mkdir(exist_ok=True)
        beside.write_bytes(envelope)
        self.put_object(signature_name(self.digest, key.public.key_id), envelope)

    def remove(self) -> None:
        """The signature, from both places."""
        signature_path(self.release.lock_path, OURS.public.key_id).unlink()
        self.release.store.delete(signature_name(self.digest, OURS.public.key_id))

    def move(self, serial: int, *, until: datetime = TODAY + HOUR, key: SigningKey = OURS) -> None:
        """Point the channel at the lockfile."""
        begun = until - timedelta(days=1)
        made = refs.Ref("small", "prod", self.digest, serial, begun, until, None, None, None, actor="x", reason="")
        self.put_object(ref_name("small", "prod"), seal(made.to_bytes(), refs.PAYLOAD_TYPE, key))

    def put_object(self, name: str, data: bytes) -> None:
        """In the place of what is there."""
        self.release.store.delete(name)
        self.release.store.create(name, data)


@pytest.fixture
def signed(release: Release) -> Signed:
    paths = []
    for name, key in (("ours", OURS), ("next", NEXT), ("stranger", STRANGER)):
        path = release.folder / f"{name}.pub"
        path.write_bytes(key.public.to_pem())
        paths.append(path)
    made = Signed(release, *paths)
    made.put(signature(release.lock.digest))
    made.move(3)
    return made


def kinds(ran: Ran) -> list[str]:
    document = json.loads(ran.out)
    assert document["may_be_served"] is (not document["findings"]) is (ran.code == 0)
    return [finding["kind"] for finding in document["findings"]]


# How a lockfile is named: each has to lead to the same answers.
NAMED: dict[str, Callable[[Signed], tuple[object, ...]]] = {
    "file": lambda signed: (signed.release.lock_path,),
    "digest": lambda signed: (signed.digest,),
    "channel": lambda signed: CHANNEL,
}


@pytest.fixture(params=NAMED)
def lockfile(request: pytest.FixtureRequest, signed: Signed) -> tuple[object, ...]:
    return NAMED[request.param](signed)


class TestVerify:
    def test_what_a_trusted_key_signed_may_be_served(
        self, kernelforge: Kernelforge, signed: Signed, lockfile: tuple[object, ...]
    ) -> None:
        ran = kernelforge("verify", *lockfile, *STORE, "--key", signed.stranger, "--key", signed.ours, "--json")
        assert kinds(ran) == []
        document = json.loads(ran.out)
        assert document["lockfile"]["digest"] == str(signed.digest)
        assert document["signature"]["domain"] == "release"

    def test_keys_may_come_from_the_variable(self, kernelforge: Kernelforge, signed: Signed) -> None:
        trusted = {"KERNELFORGE_TRUSTED_KEYS": f"{signed.next}:{signed.ours}"}
        assert kinds(kernelforge("verify", signed.release.lock_path, *STORE, "--json", **trusted)) == []
        signed.remove()
        assert kinds(kernelforge("verify", signed.release.lock_path, *STORE, "--json", **trusted)) == ["unsigned"]

    def test_unsigned(self, kernelforge: Kernelforge, signed: Signed, lockfile: tuple[object, ...]) -> None:
        signed.remove()
        ran = kernelforge("verify", *lockfile, *STORE, "--key", signed.ours, "--json")
        assert kinds(ran) == ["unsigned"]
        assert json.loads(ran.out)["lockfile"]["digest"] is None

    @pytest.mark.parametrize(
        ("envelope", "expected"),
        [
            (lambda digest: signature(digest, STRANGER), "foreign"),
            (lambda digest: signature(Digest.of(b"another")), "altered"),
            (lambda digest: signature(digest)[:-9], "altered"),
            (lambda digest: signature(digest, expires=TODAY - HOUR), "expired"),
        ],
        ids=["foreign", "another lockfile", "cut", "expired"],
    )
    def test_other_signatures(
        self,
        kernelforge: Kernelforge,
        signed: Signed,
        lockfile: tuple[object, ...],
        envelope: Callable[[Digest], bytes],
        expected: str,
    ) -> None:
        signed.put(envelope(signed.digest))
        assert kinds(kernelforge("verify", *lockfile, *STORE, "--key", signed.ours, "--json")) == [expected]

    def test_a_lockfile_that_was_altered_is_not_parsed(
        self, kernelforge: Kernelforge, signed: Signed, lockfile: tuple[object, ...]
    ) -> None:
        """Neither JSON nor short nor shallow; without the signature check this is a parser's error."""
        for data in (b"\xff", b"[" * 200_000):
            signed.release.lock_path.write_bytes(data)
            signed.put_object(lock_name(signed.digest), data)
            ran = kernelforge("verify", *lockfile, *STORE, "--key", signed.ours, "--json")
            assert kinds(ran) == ["altered"]
            assert "JSON" not in ran.out

    def test_pin_and_keys_both_have_to_hold(self, kernelforge: Kernelforge, signed: Signed) -> None:
        options = ("verify", signed.release.lock_path, *STORE, "--json", "--key")
        assert kinds(kernelforge(*options, signed.ours, "--pin", signed.digest)) == []
        assert kinds(kernelforge(*options, signed.ours, "--pin", "sha256:" + "0" * 64)) == ["pin"]
        assert kinds(kernelforge(*options, signed.stranger, "--pin", signed.digest)) == ["unsigned"]

    @pytest.mark.parametrize(
        ("move", "options", "expected"),
        [
            ({"serial": 3, "until": TODAY - HOUR}, (), "expired"),
            ({"serial": 3, "key": STRANGER}, (), "foreign"),
            ({"serial": 3}, ("--minimum-serial", "4"), "rolled-back"),
            ({"serial": 2}, (), "rolled-back"),
        ],
        ids=["expired", "foreign", "below the minimum", "older than seen"],
    )
    def test_refs(
        self, kernelforge: Kernelforge, signed: Signed, move: dict[str, object], options: tuple[str, ...], expected: str
    ) -> None:
        assert kernelforge("pull", *CHANNEL, *STORE, *CACHE, *DEVICE, "--key", signed.ours).code == 0
        signed.move(**move)  # type: ignore[arg-type]
        ran = kernelforge("verify", *CHANNEL, *STORE, *CACHE, "--key", signed.ours, *options, "--json")
        assert kinds(ran) == [expected]

    def test_it_writes_nothing(self, kernelforge: Kernelforge, signed: Signed) -> None:
        """Also not that it has seen a serial: a probe asks from volumes that are read-only."""
        before = sorted(signed.release.folder.rglob("*"))
        assert kernelforge("verify", *CHANNEL, *STORE, *CACHE, "--key", signed.ours).code == 0
        assert sorted(signed.release.folder.rglob("*")) == before


class TestPull:
    def test_what_a_trusted_key_signed_is_pulled(
        self, kernelforge: Kernelforge, signed: Signed, lockfile: tuple[object, ...]
    ) -> None:
        ran = kernelforge("pull", *lockfile, *STORE, *CACHE, *DEVICE, "--key", signed.ours, "--json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["lockfile"]["digest"] == str(signed.digest)

    def test_nothing_else_is(self, kernelforge: Kernelforge, signed: Signed, lockfile: tuple[object, ...]) -> None:
        ran = kernelforge("pull", *lockfile, *STORE, *CACHE, *DEVICE, "--key", signed.stranger)
        assert ran.code == 3
        assert not (signed.release.folder / "cache").exists()

    def test_a_digest_is_a_pin(self, kernelforge: Kernelforge, signed: Signed) -> None:
        assert kernelforge("pull", signed.digest, *STORE, *CACHE, *DEVICE).code == 0
        assert kernelforge("pull", signed.digest, *STORE, *CACHE, "--pin", "sha256:" + "0" * 64).code == 3

    def test_a_rollback_is_noticed_by_the_next_pull(self, kernelforge: Kernelforge, signed: Signed) -> None:
        pull = ("pull", *CHANNEL, *STORE, *CACHE, *DEVICE, "--key", signed.ours)
        assert kernelforge(*pull).code == 0
        signed.move(2)
        ran = kernelforge(*pull)
        assert (ran.code, "older than serial 3" in ran.err) == (3, True)
        signed.move(4)
        assert kernelforge(*pull).code == 0

    @pytest.mark.parametrize(
        "arguments",
        [
            CHANNEL,
            (*CHANNEL, "sha256:" + "0" * 64),
            (),
            ("--channel", "prod", "--key", "ours.pub"),
            ("--channel", "a/b/c", "--key", "ours.pub"),
            ("small.yaml", "--key", "ours.pub", "--minimum-serial", "2"),
            ("small.yaml", "--key", "ours.pub", "--trust-file"),
            ("small.yaml", "--key", "small.yaml"),
            ("small.yaml", "--key", "absent.pub"),
        ],
    )
    def test_what_makes_no_sense_is_bad_input(
        self, kernelforge: Kernelforge, signed: Signed, arguments: tuple[str, ...]
    ) -> None:
        ran = kernelforge("pull", *arguments, *STORE, *CACHE)
        assert ran.code == 2, ran.err
        assert not (signed.release.folder / "cache").exists()
