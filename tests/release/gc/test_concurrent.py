"""Case D6, and more: pushes, promotions, pulls and two collections at once lose nothing that a ref leads to.

Time passes between the rounds only: what publishers say is heeded for a day, and none of them takes as long.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelforge.errors import ObjectCorrupt, ObjectMissing, SweepRefused
from kernelforge.lockfile import Lockfile
from kernelforge.release.gc.collect import collect
from kernelforge.release.gc.retention import Retention
from kernelforge.release.publish import publish_lockfile
from kernelforge.release.refs import claimed_ref
from kernelforge.release.stored_lock import stored_lock
from kernelforge.store.blobs import get_blob
from kernelforge.store.file import FileStore
from kernelforge.store.interface import PruneStore
from kernelforge.store.layout import LOCKS_PREFIX, REFS_PREFIX, ref_name
from kernelforge.store.locate import open_store
from kernelforge.store.memory import MemoryStore
from tests.aging_store import AgingStore
from tests.release.channel_world import Team, sign
from tests.release.gc.world import Release, build, make_release, run_twice
from tests.seaweed import SeaweedServer

DEPLOYMENTS = ("qwen", "llama", "mixtral")
#: A channel keeps what it points at, and nothing else for longer than a day.
SHORT = Retention(history_s=0, history_moves=1, grace_s=0, allow_fraction=1.0)


def releases_of(deployment: str) -> list[Release]:
    """Releases that share most of their objects with one another, and with those of the other deployments."""
    return [make_release(deployment, [f"o{(number + k) % 7}" for k in range(4)]) for number in range(7)]


@dataclass
class World:
    """One store, and those who work on it until ``is_over``."""

    store: AgingStore
    is_over: threading.Event = field(default_factory=threading.Event)
    reads: int = 0
    deleted: int = 0

    def publish(self, deployment: str, release: Release) -> None:
        """Build and promote as CI does: what was swept under it is made again."""
        team = Team(self.store, deployment=deployment)
        for _ in range(50):
            try:
                build(self.store, release)
                publish_lockfile(release.lock, self.store, facts=None, domain="release")
                sign(self.store, release.lock)
                team.promote(release.lock)
                return
            except (ObjectMissing, ObjectCorrupt):
                continue
        raise AssertionError("never got through")

    def read(self) -> None:
        """Pull what every channel points at, byte for byte, again and again."""
        while not self.is_over.is_set():
            for deployment in DEPLOYMENTS:
                check_channel(self.store, deployment)
                self.reads += 1
            time.sleep(0.002)  # leaves the others some of the interpreter

    def sweep(self) -> None:
        """Collect again and again; of two at once, one is refused."""
        while not self.is_over.is_set():
            try:
                self.deleted += collect(self.store, SHORT, now_s=self.store.now_s).swept.objects
            except SweepRefused:
                time.sleep(0.005)


def check_channel(store: PruneStore, deployment: str) -> None:
    """ref exists => lock exists => blobs exist, and all are right."""
    name = ref_name(deployment, "prod")
    try:
        ref = claimed_ref(store.get(name, limit_bytes=1 << 20), where=name)
    except ObjectMissing:
        return
    lock = Lockfile.parse(stored_lock(store, ref.lock))
    for blob in lock.blobs:
        get_blob(store, blob)


def work_together(world: World, rounds: int, choose: random.Random) -> None:
    for _ in range(rounds):
        world.store.pass_time(days=2)
        world.is_over.clear()
        with ThreadPoolExecutor(16) as people:
            others = [people.submit(world.read) for _ in range(4)] + [people.submit(world.sweep) for _ in range(2)]
            work = [
                people.submit(lambda deployment=deployment, release=release: world.publish(deployment, release))
                for deployment in DEPLOYMENTS
                for release in choose.sample(releases_of(deployment), 1)
            ]
            try:
                for done in work:
                    done.result()
            finally:
                world.is_over.set()
            for other in others:
                other.result()


@pytest.fixture(params=["memory", "file", pytest.param("s3", marks=pytest.mark.slow)])
def inner(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], PruneStore]:
    """A store of each kind."""
    if request.param == "s3":
        server: SeaweedServer = request.getfixturevalue("seaweed_server")
        for name, value in server.environment("writer").items():
            monkeypatch.setenv(name, value)
        return lambda: open_store(server.location(f"gc-{secrets.token_hex(4)}"))
    return (lambda: FileStore(tmp_path / "store")) if request.param == "file" else MemoryStore


def test_nothing_that_a_ref_leads_to_is_ever_lost(inner: Callable[[], PruneStore]) -> None:
    world = World(AgingStore(inner()))
    work_together(world, rounds=6, choose=random.Random(7))
    assert world.reads > 50
    assert world.deleted > 20
    for deployment in DEPLOYMENTS:
        check_channel(world.store, deployment)


def test_nothing_unreachable_stays(inner: Callable[[], PruneStore]) -> None:
    world = World(AgingStore(inner()))
    work_together(world, rounds=2, choose=random.Random(8))
    world.store.pass_time(days=2)
    run_twice(world.store, SHORT)
    refs = [
        claimed_ref(world.store.get(name, limit_bytes=1 << 20), where=name) for name in world.store.names(REFS_PREFIX)
    ]
    kept = [
        release
        for name in DEPLOYMENTS
        for release in releases_of(name)
        if release.lock.digest in {r.lock for r in refs}
    ]
    assert len(refs) == len(kept) == len(DEPLOYMENTS)
    blobs_records_locks = [name for name in world.store.names() if "/blobs/" in name or "/actions/" in name]
    blobs_records_locks += [name for name in world.store.names(LOCKS_PREFIX) if ".sig/" not in name]
    assert set(blobs_records_locks) == set.union(*(release.needed for release in kept))


def test_entries_younger_than_a_day_stay_while_readers_loop(inner: Callable[[], PruneStore]) -> None:
    """Case D6 by itself: no grace, no limit on the share, and still nothing new goes."""
    world = World(AgingStore(inner()))
    for deployment in DEPLOYMENTS:
        world.publish(deployment, releases_of(deployment)[0])
    build(world.store, make_release("loose", ["x", "y"]))
    before = set(world.store.names())
    with ThreadPoolExecutor(4) as people:
        readers = [people.submit(world.read) for _ in range(4)]
        for _ in range(3):
            collect(world.store, SHORT, now_s=world.store.now_s)
        world.is_over.set()
        for reader in readers:
            reader.result()
    assert before <= set(world.store.names())
