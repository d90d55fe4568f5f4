"""``kernelforge.load`` of signed lockfiles, with a real pack, from a store, a channel and a bundle."""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta, timezone

import pytest

import kernelforge
from kernelforge.digest import Digest
from kernelforge.errors import LockfileError, LockfileExpired, ObjectCorrupt, UntrustedLockfile
from kernelforge.loader.source import Bundle, Channel, FromStore, LockSource
from kernelforge.loader.trust import LocalFile, PinnedDigest, Trust, TrustedKeys
from kernelforge.store.bundle import INDEX, BundleIndex, member_order
from kernelforge.store.layout import blob_name, lock_name, ref_name, signature_name
from kernelforge.store.stored_zip import Member, end_of, header_of, list_of
from tests.loader.conftest import Release
from tests.loader.fake_release import H200, KEYS
from tests.loader.signed_world import TRUSTED, UNPARSABLE, ref
from tests.release.signed import OURS, STRANGER, signature


class TestStore:
    """By digest and by channel, with this machine's clock."""

    @pytest.fixture
    def channel(self, release: Release) -> Channel:
        digest, today = release.lock.digest, datetime.now(timezone.utc)
        release.store.create(lock_name(digest), release.lock.to_bytes())
        release.store.create(signature_name(digest, OURS.public.key_id), signature(digest))
        made = ref(digest, until=today + timedelta(days=1), name=release.lock.name)
        release.store.create(ref_name(release.lock.name, "prod"), made)
        return Channel(release.lock.name, "prod")

    def load(self, release: Release, source: LockSource, trust: Trust = TRUSTED) -> kernelforge.KernelSet:
        return kernelforge.load(source, trust=trust, store=release.store, device=H200, cache=release.cache)

    def test_kernels_of_a_signed_lockfile_are_loaded(self, release: Release, channel: Channel) -> None:
        for source in (FromStore(release.lock.digest), channel):
            kernels = self.load(release, source)
            assert kernels.lockfile_digest == release.lock.digest
            assert kernels[KEYS[1]](10) == 20
        assert release.store.traffic.lists == 0

    def test_nothing_is_opened_of_what_is_not_trusted(self, release: Release, channel: Channel) -> None:
        for source in (FromStore(release.lock.digest), channel):
            with pytest.raises(UntrustedLockfile):
                self.load(release, source, TrustedKeys([STRANGER.public]))
        assert not release.trace.exists()
        assert not release.cache.exists()

    def test_what_has_ended_by_the_clock_of_this_machine_is_refused(self, release: Release, channel: Channel) -> None:
        name = signature_name(release.lock.digest, OURS.public.key_id)
        ended = signature(release.lock.digest, expires=datetime.now(timezone.utc) - timedelta(seconds=1))
        release.store.delete(name)
        release.store.create(name, ended)
        with pytest.raises(LockfileExpired):
            self.load(release, channel)

    def test_signed_bytes_that_are_no_lockfile_are_refused_as_such(self, release: Release) -> None:
        data = UNPARSABLE[1]
        release.store.create(lock_name(Digest.of(data)), data)
        release.store.create(signature_name(Digest.of(data), OURS.public.key_id), signature(Digest.of(data)))
        with pytest.raises(LockfileError, match="nested too deeply"):
            self.load(release, FromStore(Digest.of(data)))


class TestBundle:
    """One file that has lockfile, signature and pack; no store is asked."""

    @pytest.fixture
    def bundle(self, release: Release) -> Bundle:
        return self.made(release, signature(release.lock.digest))

    def made(self, release: Release, envelope: bytes, **more: bytes) -> Bundle:
        digest, (pack,) = release.lock.digest, release.lock.packs.values()
        members = {
            INDEX: BundleIndex(digest, ("h200-sxm",), has_objects=False).to_bytes(),
            lock_name(digest): release.lock.to_bytes(),
            signature_name(digest, OURS.public.key_id): envelope,
            blob_name(pack.blob.stored_digest): release.library,
            **more,
        }
        path = release.folder / "test.bundle"
        path.write_bytes(self.archive({name: members[name] for name in sorted(members, key=member_order)}))
        return Bundle(path)

    def archive(self, members: dict[str, bytes]) -> bytes:
        data, made = b"", []
        for name, content in members.items():
            made.append(Member(name, len(content), zlib.crc32(content), len(data)))
            data += header_of(made[-1]) + content
        listed = list_of(made)
        return data + listed + end_of(len(made), len(listed), len(data))

    def load(self, release: Release, bundle: Bundle, trust: Trust = TRUSTED) -> kernelforge.KernelSet:
        return kernelforge.load(bundle, trust=trust, device=H200, cache=release.cache)

    def test_kernels_are_loaded_for_each_reason_to_trust_it(self, release: Release, bundle: Bundle) -> None:
        for trust in (TRUSTED, PinnedDigest(release.lock.digest), LocalFile()):
            assert self.load(release, bundle, trust)[KEYS[1]](10) == 20
        assert release.store.traffic.gets == 0

    def test_nothing_of_a_bundle_without_reason_is_opened(self, release: Release, bundle: Bundle) -> None:
        for trust in (TrustedKeys([STRANGER.public]), PinnedDigest("sha256:" + "0" * 64)):
            with pytest.raises(UntrustedLockfile):
                self.load(release, bundle, trust)
        with pytest.raises(UntrustedLockfile):
            self.load(release, self.made(release, signature(Digest.of(b"another"))))
        assert not release.trace.exists()

    def test_a_blob_that_the_lockfile_does_not_name_is_refused(self, release: Release) -> None:
        extra = b"what nobody signed"
        bundle = self.made(release, signature(release.lock.digest), **{blob_name(Digest.of(extra)): extra})
        with pytest.raises(ObjectCorrupt, match="names no such blob"):
            self.load(release, bundle)
        assert not release.trace.exists()
