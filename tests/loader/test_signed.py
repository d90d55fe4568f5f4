"""A pod that trusts keys believes what one of them has signed, from wherever it comes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import LockfileRolledBack, ObjectCorrupt, ObjectMissing, UntrustedLockfile, UsageError
from kernelforge.loader.source import FromStore, LockSource
from kernelforge.loader.trust import LocalFile, PinnedDigest, Trust, TrustedKeys, read_trusted
from kernelforge.release.keys import SigningKey
from kernelforge.store.layout import lock_name
from tests.loader.signed_world import DATA, PROD, TRUSTED, UNPARSABLE, World, ref
from tests.release.signed import NEXT, NOW, OURS, STRANGER, signature
from tests.small_release import LOCK


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def signed(world: World) -> World:
    """With a lockfile that a trusted key has signed."""
    world.put(DATA, signature())
    return world


# The file, and the lockfile of a digest in a store.
SOURCES: dict[str, Callable[[World, Digest], LockSource]] = {
    "file": lambda world, digest: world.path,
    "store": lambda world, digest: FromStore(digest),
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> Callable[[World, Digest], LockSource]:
    return SOURCES[request.param]


Source = Callable[[World, Digest], LockSource]


def reason(world: World, source: LockSource, trust: Trust = TRUSTED) -> str:
    with pytest.raises(UntrustedLockfile) as refusal:
        world.read(source, trust)
    return refusal.value.reason


class TestSignature:
    def test_a_signed_lockfile_is_believed(self, signed: World, source: Source) -> None:
        read = signed.read(source(signed, LOCK.digest))
        assert (read.data, read.digest, read.is_pinned) == (DATA, LOCK.digest, True)
        assert read.statement is not None
        assert read.statement.provenance.deployment == "qwen3-8b"

    def test_keys_may_be_given_as_files(self, signed: World, tmp_path: Path) -> None:
        file = tmp_path / "release.pub"
        file.write_bytes(OURS.public.to_pem())
        for key in (file, str(file)):
            assert signed.read(signed.path, TrustedKeys([STRANGER.public, key])).digest == LOCK.digest

    @pytest.mark.parametrize("data", UNPARSABLE, ids=["no json", "deep", "endless"])
    def test_the_signature_comes_before_the_parser(self, world: World, source: Source, data: bytes) -> None:
        """Signed, these bytes are believed and refused later, as a lockfile; else nobody gets to parse them."""
        digest = world.put(data, signature(Digest.of(data)))
        assert world.read(source(world, digest)).data == data
        world.put(data, signature(Digest.of(data), STRANGER))
        assert reason(world, source(world, digest)) == "foreign"

    @pytest.mark.parametrize(
        ("envelope", "under", "expected"),
        [
            (signature(key=STRANGER), STRANGER, "unsigned"),
            (signature(key=STRANGER), OURS, "foreign"),
            (signature(Digest.of(b"another")), OURS, "altered"),
            (signature().replace(b"A", b"B", 1), OURS, "altered"),
            (b"[" * 100_000, OURS, "altered"),
            (ref(), OURS, "altered"),
            (signature(expires=NOW), OURS, "expired"),
        ],
        ids=["stranger's", "stranger's under our id", "another lock's", "one letter", "deep", "a ref", "expired"],
    )
    def test_a_lockfile_with_another_signature_is_refused(
        self, world: World, source: Source, envelope: bytes, under: SigningKey, expected: str
    ) -> None:
        world.put(DATA, envelope, under)
        assert reason(world, source(world, LOCK.digest)) == expected

    def test_a_file_that_was_changed_after_signing_is_refused(self, signed: World) -> None:
        signed.path.write_bytes(DATA.replace(b"qwen3", b"qwen4"))
        assert reason(signed, signed.path) == "altered"

    def test_a_lockfile_that_was_changed_in_the_store_is_refused(self, signed: World) -> None:
        signed.put_object(lock_name(LOCK.digest), DATA.replace(b"qwen3", b"qwen4"))
        with pytest.raises(ObjectCorrupt):
            signed.read(FromStore(LOCK.digest))

    def test_a_refusal_is_final(self, world: World) -> None:
        """Neither tried again nor answered with something older."""
        world.put(DATA, signature(Digest.of(b"another")))
        assert reason(world, FromStore(LOCK.digest)) == "altered"
        assert world.store.traffic.gets == 2

    def test_bytes_in_hand_have_no_signature(self, signed: World) -> None:
        assert reason(signed, DATA) == "unsigned"


class TestOtherTrust:
    def test_a_pinned_lockfile_may_come_from_a_store(self, signed: World) -> None:
        pin = PinnedDigest(LOCK.digest)
        assert signed.read(FromStore(str(LOCK.digest)), pin).data == DATA
        assert reason(signed, FromStore(LOCK.digest), PinnedDigest("sha256:" + "0" * 64)) == "unpinned"

    def test_nobody_vouches_for_a_store_with_local_file(self, signed: World) -> None:
        assert reason(signed, FromStore(LOCK.digest), LocalFile()) == "unpinned"

    @pytest.mark.parametrize("trust", [LocalFile(), PinnedDigest(LOCK.digest)])
    def test_a_channel_needs_keys_and_says_so(self, signed: World, trust: Trust) -> None:
        signed.move(ref())
        with pytest.raises(UntrustedLockfile, match=r"no key is trusted.*TrustedKeys.*PinnedDigest"):
            signed.read(PROD, trust)
        assert signed.store.traffic.gets == 0

    @pytest.mark.parametrize("source", [FromStore(LOCK.digest), PROD])
    def test_what_is_in_a_store_needs_one(self, source: LockSource) -> None:
        with pytest.raises(UsageError, match="give store="):
            read_trusted(source, TRUSTED)

    @pytest.mark.parametrize("keys", [[], (), "release.pub"])
    def test_no_keys_are_no_trust(self, keys: list[str]) -> None:
        with pytest.raises(UsageError, match="no list of keys"):
            TrustedKeys(keys)

    @pytest.mark.parametrize("serial", [-1, True, 1.5, "3"])
    def test_what_is_no_serial_is_refused(self, serial: int) -> None:
        with pytest.raises(UsageError, match="no serial"):
            TrustedKeys([OURS.public], minimum_serial=serial)

    def test_a_serial_is_asked_of_channels_only(self, signed: World) -> None:
        with pytest.raises(UsageError, match="minimum_serial"):
            signed.read(signed.path, TrustedKeys([OURS.public], minimum_serial=3))

    def test_a_key_file_that_holds_none_is_refused(self, signed: World) -> None:
        with pytest.raises(UsageError, match=r"qwen3-8b\.lock\.json: there is no public key"):
            signed.read(signed.path, TrustedKeys([signed.path]))


class TestChannel:
    def test_what_a_channel_points_at_is_read(self, signed: World) -> None:
        signed.move(ref())
        before = signed.store.traffic
        assert signed.read(PROD).digest == LOCK.digest
        after = signed.store.traffic
        assert (after.gets - before.gets, after.requests - before.requests) == (3, 3)

    def test_a_channel_that_was_never_moved_is_missing(self, signed: World) -> None:
        with pytest.raises(ObjectMissing):
            signed.read(PROD)

    @pytest.mark.parametrize(
        ("envelope", "expected"),
        [
            (ref(key=STRANGER), "foreign"),
            (ref().replace(b"A", b"B", 1), "altered"),
            (ref(name="llama"), "misplaced"),
            (signature(), "altered"),
            (b"\xff", "altered"),
            (ref(until=NOW), "expired"),
        ],
        ids=["stranger's", "one letter", "another channel's", "a statement", "no json", "expired"],
    )
    def test_any_other_ref_is_refused(self, signed: World, envelope: bytes, expected: str) -> None:
        signed.move(envelope)
        assert reason(signed, PROD) == expected
        assert not signed.cache.root.exists()

    def test_the_lockfile_needs_a_signature_of_its_own(self, world: World) -> None:
        world.put(DATA, signature(key=STRANGER), STRANGER)
        world.move(ref())
        assert reason(world, PROD) == "unsigned"

    def test_an_old_ref_that_is_put_back_is_refused(self, signed: World) -> None:
        signed.move(ref(serial=8))
        signed.read(PROD)
        signed.move(ref(serial=7))
        with pytest.raises(LockfileRolledBack, match=r"serial 7 .* older than serial 8"):
            signed.read(PROD)
        signed.move(ref(serial=8))
        assert signed.read(PROD).digest == LOCK.digest

    def test_a_serial_counts_only_when_all_of_it_was_believed(self, signed: World) -> None:
        """Else a ref to a lockfile that is not there yet would lock a pod out of the one before."""
        signed.move(ref(serial=9, lock=Digest.of(b"absent")))
        with pytest.raises(ObjectMissing):
            signed.read(PROD)
        signed.move(ref(serial=8))
        assert signed.read(PROD).digest == LOCK.digest

    def test_a_new_machine_holds_the_channel_against_the_minimum(self, signed: World) -> None:
        signed.move(ref(serial=4))
        assert signed.read(PROD, TrustedKeys([OURS.public], minimum_serial=4)).digest == LOCK.digest
        assert reason(signed, PROD, TrustedKeys([OURS.public], minimum_serial=5)) == "rolled-back"

    def test_the_next_key_takes_over(self, signed: World) -> None:
        both = TrustedKeys([OURS.public, NEXT.public])
        signed.move(ref(serial=1))
        assert signed.read(PROD, both).digest == LOCK.digest
        signed.put(DATA, signature(key=NEXT), NEXT)
        signed.move(ref(serial=2, key=NEXT))
        assert signed.read(PROD, both).digest == LOCK.digest
        assert signed.read(PROD, TrustedKeys([NEXT.public])).digest == LOCK.digest
