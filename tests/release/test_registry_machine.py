"""Whatever people do with a store, in whatever order, and wherever they are killed: what can be read is right.

The machine publishes, signs, promotes, rolls back, pins, collects garbage and pulls, lets time pass, kills whoever is
at work at any request, and lets a collection run to its end in the middle of a publisher's work. After every step a ref
leads to a signed lockfile, a lockfile to blobs that are all there, byte for byte, and what a pod began to pull can be
pulled to its end. What it cannot do, a publisher in the middle of a sweep, is in ``gc/test_interleaved.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kernelforge.digest import Digest
from kernelforge.errors import ObjectConflict, ObjectMissing, SweepRefused, UntrustedLockfile, UsageError
from kernelforge.lockfile import Lockfile
from kernelforge.release import channels, pins, publish
from kernelforge.release.gc.collect import collect
from kernelforge.release.gc.retention import DAY_S, Retention
from kernelforge.release.refs import Ref, open_ref
from kernelforge.release.signature import stored_signatures, trusted_statement
from kernelforge.release.stored_lock import stored_lock
from kernelforge.store import announcements
from kernelforge.store.interface import PruneStore, ReadStore
from kernelforge.store.layout import LOCKS_PREFIX, PINS_PREFIX, REFS_PREFIX, ref_name
from kernelforge.store.memory import MemoryStore
from kernelforge.store.named import Kind, named
from tests.aging_store import AgingStore, Died
from tests.meanwhile import Meanwhile
from tests.release.channel_world import SIGNER, START, Team, sign
from tests.release.gc.world import build, is_whole, make_release

DEPLOYMENT = "qwen"
#: Each shares an object with the next one, as releases do.
RELEASES = {objects: make_release(DEPLOYMENT, objects) for objects in ("ab", "bc", "cd", "da")}
BY_LOCK = {release.lock.digest: release for release in RELEASES.values()}
#: The shortest that is promised to pods: what was served a day ago is still there.
SHORT = Retention(history_s=DAY_S, history_moves=1, grace_s=DAY_S, allow_fraction=1.0)
RETENTIONS = {"short": SHORT, "default": Retention(allow_fraction=1.0)}
PULL_TAKES_S = DAY_S


@dataclass(frozen=True)
class Death:
    """Whoever is at work is killed at this request, before or after the store has done it."""

    request: int
    is_done_first: bool


@dataclass(frozen=True)
class Pull:
    """A pod that has read a ref, and then takes its time."""

    lock: Digest
    ends_s: float


@dataclass(frozen=True)
class Fate:
    """What befalls who is at work: death, a collection just before what it writes, or nothing."""

    death: Death | None = None
    is_collected: bool = False


class Collected(Meanwhile):
    """A collection runs before every write of a lockfile, ref or pin: when its user has looked whether all is there."""

    def __init__(self, inner: PruneStore, collect: Callable[[], None]) -> None:
        super().__init__(inner, 0, collect)

    def create(self, name: str, data: bytes) -> bool:
        self._collect_before(name)
        return super().create(name, data)

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        self._collect_before(name)
        super().replace(name, data, version=version)

    def _collect_before(self, name: str) -> None:
        if name.startswith((LOCKS_PREFIX, PINS_PREFIX, REFS_PREFIX)):
            self._happens()


releases = st.sampled_from(sorted(RELEASES))
retentions = st.sampled_from(sorted(RETENTIONS))
deaths = st.builds(Death, st.integers(1, 80), st.booleans())
# Death ends a step, so most steps must come to their ends for anything to be deleted.
quiet = st.just(Fate())
fates = st.one_of(quiet, st.just(Fate(is_collected=True)), quiet, st.builds(Fate, deaths))
#: A day and an hour make old what is listed or announced; forty days, what a channel moved on from.
HOURS = st.sampled_from([5, 25, 25, 49, 24 * 40])
pin_names = st.sampled_from(["audit", "late"])


class Registry(RuleBasedStateMachine):
    """One store and one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.store = AgingStore(MemoryStore())
        self.team = Team(self.store, deployment=DEPLOYMENT)
        self.serial = 0
        self.pulls: list[Pull] = []
        self.patch = pytest.MonkeyPatch()
        for module in (channels, publish, pins):
            self.patch.setattr(module, "sweep_since", self._sweep_since)

    def teardown(self) -> None:
        self.patch.undo()

    @initialize(first=releases, last=releases)
    def begins_with_releases(self, first: str, last: str) -> None:
        for release in RELEASES:
            self.publishes(release, Fate())
        self.promotes(first, Fate())
        self.promotes(last, Fate())

    @rule(release=releases, fate=fates)
    def publishes(self, release: str, fate: Fate) -> None:
        made = RELEASES[release]
        with self._meets(fate, ObjectMissing) as store:
            build(store, made)
            publish.publish_lockfile(made.lock, store, facts=b"{}", domain="release")
            sign(store, made.lock)
            assert is_whole(self.store, made)

    @rule(release=releases, fate=fates)
    def promotes(self, release: str, fate: Fate) -> None:
        self.team.now += timedelta(hours=1)
        with self._meets(fate, ObjectMissing, UntrustedLockfile) as store:
            moved = replace(self.team, store=store).promote(RELEASES[release].lock)
            assert self._ref() == moved.ref

    @rule(fate=fates)
    def rolls_back(self, fate: Fate) -> None:
        before = self._ref()
        self.team.now += timedelta(hours=1)
        with self._meets(fate, ObjectMissing, UntrustedLockfile, UsageError) as store:
            moved = replace(self.team, store=store).roll_back()
            assert before is not None
            assert moved.ref.lock != before.lock

    @rule(release=releases, name=pin_names, fate=fates)
    def pins(self, release: str, name: str, fate: Fate) -> None:
        pin = pins.Pin(name, RELEASES[release].lock.digest, self.team.now)
        # The name may be another lockfile's.
        with self._meets(fate, ObjectMissing, ObjectConflict) as store:
            pins.pin_lock(store, pin)

    @rule(name=pin_names)
    def unpins(self, name: str) -> None:
        with self._refused(ObjectMissing):
            pins.remove_pin(self.store, name)

    @rule(retention=retentions, death=st.none() | deaths)
    def collects(self, retention: str, death: Death | None) -> None:
        with self._meets(Fate(death), SweepRefused) as store:
            collect(store, RETENTIONS[retention], now_s=self.store.now_s)

    @rule(retention=retentions, hours=HOURS, death=st.none() | deaths)
    def collects_again(self, retention: str, hours: float, death: Death | None) -> None:
        """A collection a day or more after one: only the second deletes."""
        self.collects(retention, None)
        self.waits(hours)
        self.collects(retention, death)

    @rule(release=releases, work=st.sampled_from(["publishes", "promotes", "pins"]))
    def takes_over_what_is_due(self, release: str, work: str) -> None:
        """Somebody comes back to a release of long ago as it is about to be deleted."""
        self.waits(25)
        self.collects("short", None)
        self.waits(25)
        works = {"publishes": self.publishes, "promotes": self.promotes, "pins": partial(self.pins, name="late")}
        works[work](release=release, fate=Fate(is_collected=True))

    @rule(hours=HOURS)
    def waits(self, hours: float) -> None:
        self.store.pass_time(hours=hours)
        self.team.now += timedelta(hours=hours)
        self.pulls = [pull for pull in self.pulls if pull.ends_s >= self.store.passed_s]

    @rule()
    def begins_to_pull(self) -> None:
        ref = self._ref()
        if ref is not None:
            self.pulls.append(Pull(ref.lock, self.store.passed_s + PULL_TAKES_S))

    @invariant()
    def pulls_go_on(self) -> None:
        for pull in self.pulls:
            stored_lock(self.store, pull.lock)
            assert is_whole(self.store, BY_LOCK[pull.lock])

    @invariant()
    def the_channel_leads_to_a_release(self) -> None:
        ref = self._ref()
        assert (ref is not None) or not self.serial
        if ref is not None:
            assert ref.serial >= self.serial
            self.serial = ref.serial
            check_signed(self.store, ref.lock)
            assert is_whole(self.store, BY_LOCK[ref.lock])

    @invariant()
    def every_lockfile_has_what_it_names(self) -> None:
        for name in self.store.names(LOCKS_PREFIX):
            if named(name).kind is Kind.LOCK:
                digest = Digest(named(name).digest.hex())
                assert Lockfile.parse(stored_lock(self.store, digest)) == BY_LOCK[digest].lock
                assert is_whole(self.store, BY_LOCK[digest])

    @invariant()
    def what_is_pinned_is_there(self) -> None:
        for pin in pins.list_pins(self.store):
            assert is_whole(self.store, BY_LOCK[pin.lock])

    def _ref(self) -> Ref | None:
        """What pods take now, by nobody's word but the signature's."""
        try:
            envelope = self.store.get(ref_name(DEPLOYMENT, "prod"), limit_bytes=1 << 20)
        except ObjectMissing:
            return None
        return open_ref(envelope, DEPLOYMENT, "prod", trusted=(SIGNER.public,), where="ref")

    @contextmanager
    def _meets(self, fate: Fate, *refusals: type[Exception]) -> Iterator[PruneStore]:
        """The store for one step, in which this happens to who is at work."""
        if fate.death is not None:
            self.store.die_at(fate.death.request, is_done_first=fate.death.is_done_first)
        try:
            with self._refused(*refusals):
                yield Collected(self.store, self._collect) if fate.is_collected else self.store
        except Died:
            assert fate.death is not None
        finally:
            self.store.revive()

    def _collect(self) -> None:
        with self._refused(SweepRefused):
            collect(self.store, SHORT, now_s=self.store.now_s)

    @contextmanager
    def _refused(self, *errors: type[Exception]) -> Iterator[None]:
        """A refusal is an answer: there may be nothing to promote, roll back to, pin or collect."""
        try:
            yield
        except errors:
            return

    def _sweep_since(self, store: PruneStore, made: announcements.Announcement) -> bool:
        # A sweep that was killed holds its lease for two minutes, which pass at once here.
        return announcements.sweep_since(store, made, now_s=self.store.now_s, pause=self._pause)

    def _pause(self, seconds: float) -> None:
        self.store.pass_time(seconds=10)


def check_signed(store: ReadStore, lock: Digest) -> None:
    """What a pod does before it parses a lockfile."""
    stored = stored_signatures(store, lock)
    trusted_statement(lock, stored, trusted=(SIGNER.public,), now=START, where="lock")


def run_machine(examples: int, steps: int, *, is_the_same: bool) -> Callable[[], None]:
    case = type("Sized", (Registry,), {}).TestCase
    case.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=is_the_same,
    )
    return case("runTest").runTest  # type: ignore[no-any-return]


def test_what_can_be_read_is_right_whatever_happens() -> None:
    run_machine(examples=60, steps=40, is_the_same=True)()


@pytest.mark.slow
def test_what_can_be_read_is_right_whatever_happens_in_long_lives() -> None:
    run_machine(examples=150, steps=100, is_the_same=False)()
