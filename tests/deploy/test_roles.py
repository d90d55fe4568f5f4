"""Each role does its whole job on a real server with no more than its policy, and is refused what another role decides.

SeaweedFS evaluates the very documents of ``registry/deploy/policies``, but for the condition that makes an upload
create-only: it knows none such, so it is left out here, and not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import kernelforge
from kernelforge.cli.doctor_check import Status
from kernelforge.cli.doctor_store import check_store
from kernelforge.cli.signing_key import write_new_key
from kernelforge.digest import Digest
from kernelforge.errors import ObjectMissing, StoreDenied
from kernelforge.loader.source import Channel
from kernelforge.loader.trust import TrustedKeys
from kernelforge.lockfile import Lockfile
from kernelforge.release.gc.collect import collect, survey
from kernelforge.release.keys import SigningKey
from kernelforge.release.pins import Pin, pin_lock
from kernelforge.release.publish import publish_lockfile
from kernelforge.store import layout, marker
from kernelforge.store.actions import ActionCache, BuildRecord
from kernelforge.store.blobs import get_blob, put_blob
from kernelforge.store.damage import read_damage
from kernelforge.store.interface import PruneStore
from kernelforge.store.locate import open_store
from tests.aging_store import AgingStore
from tests.cli.command import Ran, run, write_manifest
from tests.cli.in_process import Kernelforge
from tests.deploy.roles import (
    DELETES,
    DOMAIN,
    GETS,
    NAMES,
    PUTS,
    ROLES,
    acting_as,
    filled_in,
    opened_as,
    permitted,
    without_create_only,
)
from tests.loader.fake_release import H200, KEYS, compile_pack, locked_entry, lockfile
from tests.release.gc.world import ANY_SHARE, make_release, publish
from tests.release.signed import NOW
from tests.seaweed import SeaweedServer, run_seaweed

pytestmark = pytest.mark.slow

# Where each role tries everything, and where they work together.
PREFIXES = (*ROLES, "built", "released", "aged")
UNCHANGED = "ci-writer-unchanged"
ADMINISTRATOR = "writer"
SIGN = ("sign", "test.lock.json", "--key", "release.key", "--domain", DOMAIN)
PROMOTE = ("promote", "prod", "test.lock.json", "--key", "release.key")
COLLECT = ("gc", "--run")


@pytest.fixture(scope="module")
def server() -> Iterator[SeaweedServer]:
    """A server that knows the four roles, and the CI writer once more with its policy as AWS gets it."""
    roles = {role: [without_create_only(filled_in(role, prefix)) for prefix in PREFIXES] for role in ROLES}
    with run_seaweed({**roles, UNCHANGED: [filled_in("ci-writer", "unchanged")]}) as started:
        yield started


@dataclass(frozen=True)
class Released:
    """A lockfile of the deployment ``test`` in the store at ``location``, its file, and the signer's key."""

    server: SeaweedServer
    folder: Path
    location: str
    lock: Lockfile
    path: Path
    key: SigningKey

    def store(self, identity: str) -> PruneStore:
        """As this identity."""
        return opened_as(self.server, identity, "released")


@pytest.fixture(scope="module")
def released(server: SeaweedServer, tmp_path_factory: pytest.TempPathFactory) -> Released:
    """The CI writer publishes, as a build does: blobs, records, announcement, lockfile, facts."""
    folder = tmp_path_factory.mktemp("released")
    lock = lockfile(b"")
    library = compile_pack(folder, [entry.symbol for entry in lock.entries])
    lock = lockfile(library)
    store = opened_as(server, "ci-writer", "released")
    marker.claim(store)
    for entry in map(locked_entry, KEYS):
        blob = put_blob(store, b"object", compress=False)
        ActionCache(store, DOMAIN).put(BuildRecord(entry.key_digest, {"object": blob}, {}, 0.5, {}))
    put_blob(store, library, compress=False)
    publish_lockfile(lock, store, facts=b"{}", domain=DOMAIN)
    path = folder / "test.lock.json"
    path.write_bytes(lock.to_bytes())
    key = write_new_key(folder / "release.key")
    write_new_key(folder / "retired.key")
    return Released(server, folder, server.location("released"), lock, path, key)


@pytest.fixture(scope="module")
def promoted(released: Released) -> Released:
    """The signer signs it and points the channel ``prod`` at it."""
    for command in (SIGN, PROMOTE):
        environment = {**released.server.environment("release-signer"), "KERNELFORGE_STORE": released.location}
        done = run(*command, cwd=released.folder, **environment)
        assert done.code == 0, done.err
    return released


class Command:
    """``command("pod", "pull", ...)`` runs in the release's folder on its store, as that role."""

    def __init__(self, released: Released, kernelforge: Kernelforge) -> None:
        self._released = released
        self._kernelforge = kernelforge

    def __call__(self, role: str, *arguments: object) -> Ran:
        with acting_as(self._released.server, role):
            return self._kernelforge(*arguments, KERNELFORGE_STORE=self._released.location)


@pytest.fixture
def command(promoted: Released, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    for variable in ("LOCK", "CACHE", "PIN", "SIGNING_KEY", "TRUSTED_KEYS"):
        monkeypatch.delenv(f"KERNELFORGE_{variable}", raising=False)
    return Command(promoted, Kernelforge(promoted.folder, monkeypatch, capsys))


def names_in(store: PruneStore) -> set[str]:
    """All but announcements, which a refused command may leave behind."""
    return {name for name in store.names() if not name.startswith(f"{layout.GC_PREFIX}announced/")}


class TestWholeJob:
    """What each role is there for succeeds."""

    def test_the_ci_writer_builds_and_finds_what_it_built(self, server: SeaweedServer, tmp_path: Path) -> None:
        manifest = write_manifest(tmp_path, ("Copy", "{width: 32}"))
        build = ("build", manifest, "--store", server.location("built"), "--domain", DOMAIN, "--json")
        first = run(*build, cwd=tmp_path, **server.environment("ci-writer"))
        assert (first.code, first.totals["built"]) == (0, 1), first.err
        (tmp_path / "registry" / "releases" / "small.lock.json").unlink()
        again = run(*build, cwd=tmp_path, **server.environment("ci-writer"))
        assert (again.code, again.totals["hits"]) == (0, 1), again.err

    def test_the_release_signer_signs_again_moves_on_and_pins(self, promoted: Released, command: Command) -> None:
        another = replace(promoted.lock, toolchains={"cu13": {"flavour": "cu13", "compiler": "2"}})
        publish_lockfile(another, promoted.store("ci-writer"), facts=None, domain=DOMAIN)
        (promoted.folder / "another.lock.json").write_bytes(another.to_bytes())
        key = ("--key", "release.key")
        for arguments in (
            (*SIGN, "--renew", "--expires-days", "30"),
            ("sign", "another.lock.json", *key, "--domain", DOMAIN),
            ("promote", "canary", "test.lock.json", *key),
            ("promote", "canary", "another.lock.json", *key),
            ("promote", "test/canary", "--rollback", *key),
            ("promote", "test/canary", "--history", *key),
            ("gc", "--pin", "audit", "test.lock.json"),
            ("gc", "--unpin", "audit"),
        ):
            ran = command("release-signer", *arguments)
            assert ran.code == 0, ran.err

    def test_a_pod_pulls_verifies_and_loads_from_a_channel(self, promoted: Released, command: Command) -> None:
        # The first key has not signed, which a pod sees while keys are rotated.
        trusting = ("--key", "retired.key.pub", "--key", "release.key.pub", "--cache", "cache")
        for name in ("verify", "pull"):
            ran = command("pod", name, "--channel", "test/prod", *trusting)
            assert ran.code == 0, ran.err
        with acting_as(promoted.server, "pod"):
            kernels = kernelforge.load(
                Channel("test", "prod"),
                trust=TrustedKeys([promoted.key.public]),
                store=promoted.location,
                device=H200,
                cache=promoted.folder / "another cache",
            )
        assert kernels.lockfile_digest == promoted.lock.digest
        assert kernels[KEYS[1]](10) == 20

    def test_garbage_collection_plans_and_deletes_in_two_runs(self, server: SeaweedServer) -> None:
        kept, gone = make_release("test", ["a", "b"]), make_release("test", ["a", "c"])
        administrator = opened_as(server, ADMINISTRATOR, "aged")
        publish(administrator, kept)
        publish(administrator, gone)
        administrator.create(layout.about_name(gone.lock.digest, "facts", gone.lock.digest), b"{}")
        pin_lock(administrator, Pin("kept", kept.lock.digest, NOW))
        store = AgingStore(opened_as(server, "gc", "aged"))
        store.pass_time(days=100)
        assert {found.name for found in survey(store, ANY_SHARE, now_s=store.now_s()).new} >= gone.needed - kept.needed
        collect(store, ANY_SHARE, now_s=store.now_s)
        assert gone.needed <= set(administrator.names())
        store.pass_time(days=2)
        collect(store, ANY_SHARE, now_s=store.now_s)
        left = set(administrator.names())
        assert kept.needed <= left
        assert not (gone.needed - kept.needed) & left
        assert not [name for name in left if gone.lock.digest.hex in name]

    def test_garbage_collection_by_its_command(self, command: Command) -> None:
        for arguments in (("gc",), COLLECT, COLLECT, ("gc", "--pins")):
            ran = command("gc", *arguments)
            assert ran.code == 0, ran.err

    def test_damage_is_moved_by_gc_and_made_good_by_ci(self, promoted: Released, command: Command) -> None:
        blob = promoted.lock.entries[0].object
        administrator = promoted.store(ADMINISTRATOR)
        name = layout.blob_name(blob.stored_digest)
        administrator.replace(name, b"damage", version=administrator.get_versioned(name, limit_bytes=100)[1])
        ran = command("gc", "verify", "test.lock.json", "--deep")
        assert (ran.code, "it was moved, see v1/quarantine/" in ran.out) == (1, True), ran.err
        store = promoted.store("ci-writer")
        put_blob(store, b"object", compress=False)
        assert get_blob(store, blob) == b"object"
        # Only gc may write the list of damage, so it is gc that strikes out what ci has made again.
        assert list(read_damage(store)) == [blob.stored_digest]
        ran = command("gc", "verify", "test.lock.json", "--deep")
        assert "corrupt-blob" not in ran.out
        assert "missing-blob" not in ran.out
        assert not read_damage(store)

    @pytest.mark.parametrize(
        ("role", "called"), [("ci-writer", "ci"), ("release-signer", "release"), ("pod", "pod"), ("gc", "gc")]
    )
    def test_the_doctor_finds_that_a_role_may_do_its_work(self, server: SeaweedServer, role: str, called: str) -> None:
        store = opened_as(server, role, "built")
        failed = [check for check in check_store(store, called) if check.status is Status.FAILED]
        assert failed == []


class TestRefused:
    """What another role decides is refused by the server, and nothing is changed."""

    @pytest.mark.parametrize("role", ROLES)
    def test_the_server_lets_a_role_do_what_its_policy_says_and_no_more(self, server: SeaweedServer, role: str) -> None:
        administrator, store = opened_as(server, ADMINISTRATOR, role), opened_as(server, role, role)
        assert permitted(lambda name: store.create(name, b"x")) == PUTS[role]
        for name in NAMES.values():
            administrator.create(name, b"x")
        assert permitted(lambda name: store.get(name, limit_bytes=9)) == GETS[role]
        assert permitted(store.delete) == DELETES[role]
        assert set(administrator.names()) == {NAMES[what] for what in set(NAMES) - DELETES[role]}

    @pytest.mark.parametrize("role", ROLES)
    def test_a_role_has_no_say_outside_its_prefix(self, server: SeaweedServer, role: str) -> None:
        opened_as(server, ADMINISTRATOR, "elsewhere").create(layout.MARKER, b"x")
        store = opened_as(server, role, "elsewhere")
        assert permitted(lambda name: store.get(name, limit_bytes=9)) == set()
        assert permitted(lambda name: store.create(name, b"x")) == set()
        assert permitted(store.delete) == set()
        assert permitted(lambda name: list(store.listed(name))) == set()
        with pytest.raises(StoreDenied, match="AccessDenied"):
            list(opened_as(server, role, "").listed())

    @pytest.mark.parametrize("role", ROLES)
    def test_what_is_missing_is_missing_and_not_refused(self, server: SeaweedServer, role: str) -> None:
        store, absent = opened_as(server, role, "built"), layout.blob_name(Digest.of(b"never there"))
        with pytest.raises(ObjectMissing):
            store.get(absent, limit_bytes=1)
        with pytest.raises(ObjectMissing):
            store.size(absent)

    @pytest.mark.parametrize("folder", ["", "v1/", "v1/blobs/sha256/ab/", "v1/locks/sha256/", "v1/refs/"])
    def test_a_pod_lists_nothing_that_the_others_list(self, promoted: Released, folder: str) -> None:
        with pytest.raises(StoreDenied, match="AccessDenied"):
            list(promoted.store("pod").listed(folder))
        for role in set(ROLES) - {"pod"}:
            list(promoted.store(role).listed(folder))

    @pytest.mark.parametrize(
        ("role", "arguments"),
        [
            *((role, SIGN) for role in ROLES if role != "release-signer"),
            *((role, PROMOTE) for role in ROLES if role != "release-signer"),
            *((role, COLLECT) for role in ROLES if role != "gc"),
        ],
        ids=lambda value: value if isinstance(value, str) else value[0],
    )
    def test_commands_of_another_role_end_with_a_refusal(
        self, promoted: Released, command: Command, role: str, arguments: tuple[str, ...]
    ) -> None:
        administrator = promoted.store(ADMINISTRATOR)
        before = names_in(administrator)
        ran = command(role, *arguments)
        assert (ran.code, "AccessDenied (HTTP 403)" in ran.err) == (3, True), ran.err
        assert names_in(administrator) == before


def test_a_server_without_the_condition_refuses_what_it_guards(server: SeaweedServer) -> None:
    """The policy that AWS gets is safe where it is not understood: nothing can be created, rather than replaced."""
    store = opened_as(server, UNCHANGED, "unchanged")
    with pytest.raises(StoreDenied, match="AccessDenied"):
        put_blob(store, b"object")


def test_somebody_unknown_may_do_nothing(promoted: Released) -> None:
    anonymous = open_store(f"{promoted.location}&anonymous=true")
    with pytest.raises(StoreDenied):
        anonymous.get(layout.MARKER, limit_bytes=1 << 16)
