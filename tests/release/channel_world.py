"""A store with signed lockfiles of one deployment that share their blobs, and a clock that a test sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial

from kernelforge.digest import Digest
from kernelforge.lockfile import Lockfile
from kernelforge.release import channels
from kernelforge.release.channels import Moved, Mover
from kernelforge.release.envelope import seal
from kernelforge.release.keys import SigningKey
from kernelforge.release.positions import Channel
from kernelforge.release.promotable import RELEASE_DOMAINS, check_promotable
from kernelforge.release.provenance import LOCAL_BUILDER, Provenance
from kernelforge.release.publish import publish_lockfile
from kernelforge.release.statement import PAYLOAD_TYPE, Statement
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import signature_name
from tests.small_release import LOCK, fill

START = datetime(2027, 1, 31, 9, 30, tzinfo=timezone.utc)
#: Keys are made once: what a test needs is that they differ.
SIGNER, STRANGER = SigningKey.new(), SigningKey.new()


def release_lock(number: int, deployment: str = LOCK.name) -> Lockfile:
    """A lockfile of its own for every number, with the same packs and objects."""
    return replace(
        LOCK, name=deployment, toolchains={"cu13": {"flavour": "cu13", "nvidia-cutlass-dsl": f"4.8.{number}"}}
    )


def sign(
    store: PruneStore, lock: Lockfile, *, key: SigningKey = SIGNER, domain: str = "release", days: int | None = None
) -> None:
    """Put a signature over a lockfile into the store, good for so many days."""
    made = Provenance.of(lock, domain=domain, source=None, builder=LOCAL_BUILDER, version="0")
    expires = None if days is None else START + timedelta(days=days)
    statement = Statement(lock.digest, made, START, expires)
    store.create(signature_name(lock.digest, key.public.key_id), seal(statement.to_bytes(), PAYLOAD_TYPE, key))


def fill_store(store: PruneStore, locks: Sequence[Lockfile]) -> None:
    """Publish and sign lockfiles."""
    fill(store)
    for lock in locks:
        publish_lockfile(lock, store, facts=None)
        sign(store, lock)


@dataclass
class Team:
    """Moves one channel of one store, a day later each time."""

    store: PruneStore
    actor: str = "ann"
    now: datetime = START
    channel_name: str = "prod"
    deployment: str = LOCK.name
    key: SigningKey = SIGNER

    @property
    def channel(self) -> Channel:
        """What ``promote`` and ``roll_back`` take."""
        return Channel(self.store, self.deployment, self.channel_name, (self.key.public, SIGNER.public))

    def promote(self, lock: Lockfile, **options: bool) -> Moved:
        """Point the channel at a lockfile."""
        return channels.promote(self.channel, lock.digest, self._mover(), check=self.check(), **options)

    def roll_back(self, to: int | Digest | None = None) -> Moved:
        """Point it at one that it has pointed at."""
        return channels.roll_back(self.channel, self._mover(), check=self.check(), to=to)

    def check(self, domains: frozenset[str] = RELEASE_DOMAINS) -> channels.Check:
        """The checks of a release."""
        trusted = self.channel.trusted
        return partial(
            check_promotable, self.store, deployment=self.deployment, trusted=trusted, now=self.now, domains=domains
        )

    def _mover(self) -> Mover:
        self.now += timedelta(days=1)
        return Mover(self.key, self.now, self.actor, reason="it is time")
