"""A channel is moved by one, forward in serials, to what may be served; who moved it stays on record."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import (
    ChannelMoved,
    ObjectConflict,
    ObjectMissing,
    PromotionRefused,
    StoreError,
    StoreUnavailable,
    UntrustedLockfile,
    UsageError,
)
from kernelforge.release import channels
from kernelforge.release.channels import Moved, Mover
from kernelforge.release.moves import history
from kernelforge.release.positions import find_position
from kernelforge.release.refs import Ref, read_ref
from kernelforge.store import PruneStore, open_store
from kernelforge.store.file import FileStore
from kernelforge.store.layout import REFS_LOG_PREFIX, REFS_PREFIX, ref_log_name, ref_name
from kernelforge.store.memory import MemoryStore
from kernelforge.store.sweeps import LEASE, Lease
from tests.release.channel_world import SIGNER, START, STRANGER, Team, fill_store, release_lock
from tests.seaweed import SeaweedServer
from tests.store.conformance import at_once

A, B, C = LOCKS = [release_lock(number) for number in range(3)]
REF_NAME = ref_name("qwen3-8b", "prod")


@pytest.fixture
def store() -> PruneStore:
    store = MemoryStore()
    fill_store(store, LOCKS)
    return store


@pytest.fixture
def team(store: PruneStore) -> Team:
    return Team(store)


def current(store: PruneStore, team: Team) -> Ref:
    return read_ref(store, "qwen3-8b", "prod", trusted=[SIGNER.public], now=team.now)


def logged(store: PruneStore, team: Team) -> list[tuple[int, Digest | None]]:
    """The channel's moves, the latest first, as far as they are to be trusted."""
    ref = current(store, team)
    moves = history(store, ref, trusted=team.channel.trusted)
    return [(ref.serial, ref.lock), *((move.serial, move.ref and move.ref.lock) for move in moves)]


def test_the_first_move_makes_the_channel(store: PruneStore, team: Team) -> None:
    moved = team.promote(A)
    assert moved.warnings == ()
    assert moved.ref == current(store, team)
    assert (moved.ref.serial, moved.ref.lock, moved.ref.previous) == (1, A.digest, None)
    assert moved.ref.expires - moved.ref.issued == timedelta(days=90)
    assert list(store.names(REFS_LOG_PREFIX)) == [ref_log_name("qwen3-8b", "prod", 1)]


def test_history_has_every_move(store: PruneStore, team: Team) -> None:
    """More than fit into a glance: twelve, two of them rollbacks."""
    chosen = [A, B, C, None, A, B, B, C, None, C, A, B]
    for lock in chosen:
        team.roll_back() if lock is None else team.promote(lock)
    expected = [A, B, C, B, A, B, B, C, B, C, A, B]
    assert logged(store, team) == [(serial, lock.digest) for serial, lock in reversed(list(enumerate(expected, 1)))]


def test_channels_do_not_see_each_other(store: PruneStore, team: Team) -> None:
    canary = Team(store, channel_name="canary")
    team.promote(A)
    canary.promote(B)
    canary.promote(C)
    assert (current(store, team).serial, current(store, team).lock) == (1, A.digest)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("A B <", "A"),
        ("A B C < <", "A"),
        ("A B < C <", "A"),
        ("A B < C < ", "A"),
        ("A B A <", "B"),
        ("A B B <", "A"),
        ("A B C < B <", "A"),
        ("A B < B <", "A"),
        ("A B C <1", "A"),
        ("A B C <2 <", "A"),
        ("A B C <A B <", "A"),
        ("A B C < <3", "C"),
        ("A B C < <3 <", "B"),
        ("A B < <B", "B"),
    ],
)
def test_a_rollback_goes_further_back_and_never_to_what_was_rolled_back(team: Team, steps: str, expected: str) -> None:
    """In an incident the second rollback must not bring back the release that the first one took away."""
    names = dict(zip("ABC", LOCKS, strict=True))
    for serial, step in enumerate(steps.split(), 1):
        goal = step.removeprefix("<")
        if step in names:
            moved = team.promote(names[step])
        elif goal in names:
            moved = team.roll_back(names[goal].digest)
        else:
            moved = team.roll_back(int(goal) if goal else None)
        assert moved.ref.serial == serial
    assert moved.ref.lock == names[expected].digest


@pytest.mark.parametrize(
    ("steps", "to", "problem"),
    [
        ([A], None, "nothing was promoted before serial 1"),
        ([A, A], None, "nothing was promoted before serial 2"),
        ([A, B], 2, "serial 2 is not before serial 2"),
        ([A, B], 0, "serial 0 is not before"),
        ([A, B], B.digest, "points at .* already"),
        ([A, B, A], 1, "points at .* already"),
        ([A, B], C.digest, "is not on the log"),
    ],
    ids=str,
)
def test_there_is_nothing_to_go_back_to(team: Team, steps: list[object], to: int | Digest | None, problem: str) -> None:
    for lock in steps:
        team.promote(lock)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=problem):
        team.roll_back(to)


def test_a_channel_that_was_never_moved_cannot_go_back(team: Team) -> None:
    with pytest.raises(ObjectMissing, match="never been moved"):
        team.roll_back()


def test_a_move_that_is_too_old_for_the_log_is_named_by_its_lockfile(store: PruneStore, team: Team) -> None:
    team.promote(A)
    team.promote(B)
    store.delete(ref_log_name("qwen3-8b", "prod", 1))
    with pytest.raises(UsageError, match="serial 1 is not on the log") as caught:
        team.roll_back()
    assert "kernelforge promote qwen3-8b/prod sha256:" in caught.value.hint


# --- two at once


def race(teams: list[Team], locks: list[object]) -> list[Moved | ChannelMoved]:
    """Everybody has seen the same ref before anybody moves it."""
    barrier = threading.Barrier(len(teams))

    def move(team: Team, lock: object) -> Moved | ChannelMoved:
        def check(digest: Digest) -> None:
            team.check()(digest)
            barrier.wait(timeout=60)

        by = Mover(SIGNER, START + timedelta(days=3), team.actor, reason=f"{team.actor} says so")
        try:
            return channels.promote(team.channel, lock.digest, by, check=check)  # type: ignore[attr-defined]
        except ChannelMoved as error:
            return error

    def call(team: Team, lock: object) -> Callable[[], Moved | ChannelMoved]:
        return lambda: move(team, lock)

    return at_once([call(team, lock) for team, lock in zip(teams, locks, strict=True)])


def check_race(stores: list[PruneStore], *, moves_before: int) -> None:
    fill_store(stores[0], LOCKS)
    first = Team(stores[0])
    for _ in range(moves_before):
        first.promote(A)
    outcomes = race([Team(stores[0], "bob"), Team(stores[1], "eve")], [B, C])
    [winner] = [outcome.ref for outcome in outcomes if isinstance(outcome, Moved)]
    [loser] = [outcome for outcome in outcomes if isinstance(outcome, ChannelMoved)]
    assert winner.serial == moves_before + 1
    assert current(stores[0], first) == winner
    for told in (
        f"serial {winner.serial} to {winner.lock}",
        f"by {winner.actor} ({winner.actor} says so)",
        "2027-02-03T",
    ):
        assert told in loser.problem
    assert logged(stores[1], first)[0] == (winner.serial, winner.lock)
    assert len(logged(stores[1], first)) == winner.serial


@pytest.mark.parametrize("moves_before", [0, 2])
def test_of_two_at_once_one_moves_and_the_other_learns_who_did(tmp_path: Path, moves_before: int) -> None:
    memory = MemoryStore()
    check_race([memory, memory], moves_before=moves_before)
    check_race([FileStore(tmp_path), FileStore(tmp_path)], moves_before=moves_before)


@pytest.mark.parametrize("moves_before", [0, 2])
def test_of_two_at_once_one_moves_on_s3(
    seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch, moves_before: int
) -> None:
    for name, value in seaweed_server.environment("writer").items():
        monkeypatch.setenv(name, value)
    location = seaweed_server.location(f"channels-{moves_before}")
    check_race([open_store(location), open_store(location)], moves_before=moves_before)


def test_whoever_moves_it_between_look_and_write_wins(store: PruneStore, team: Team) -> None:
    """Also against a rollback, whose wish was about another lockfile than the one that is there now."""
    team.promote(A)
    team.promote(B)
    other = Team(store, "bob", now=team.now)

    def check(_: Digest) -> None:
        other.promote(C)

    with pytest.raises(ChannelMoved, match=r"serial 3 to .* by bob"):
        channels.roll_back(team.channel, Mover(SIGNER, team.now, "ann"), check=check)
    assert current(store, team).lock == C.digest


# --- crashes and stores that fail


class Killed(FileStore):
    """Kills its process right before or right after a write."""

    def __init__(self, root: Path, write: int, *, is_after: bool) -> None:
        super().__init__(root)
        self._left = write
        self._is_after = is_after

    def create(self, name: str, data: bytes) -> bool:
        return self._around(lambda: super(Killed, self).create(name, data))

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        self._around(lambda: super(Killed, self).replace(name, data, version=version))  # type: ignore[arg-type, return-value]

    def _around(self, write: Callable[[], bool]) -> bool:
        self._left -= 1
        if not self._left and not self._is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = write()
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", [1, 2, 3, 4], ids=["line of the last move", "announcement", "ref", "line"])
def test_a_promotion_that_is_killed_is_done_or_not_and_the_next_completes_it(
    tmp_path: Path, write: int, is_after: bool
) -> None:
    fill_store(FileStore(tmp_path), LOCKS)
    team = Team(FileStore(tmp_path))
    team.promote(A)
    child = os.fork()
    if child == 0:
        Team(Killed(tmp_path, write, is_after=is_after), "bob", now=team.now).promote(B)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    store = FileStore(tmp_path)
    found = current(store, team)
    assert (found.serial, found.lock) in [(1, A.digest), (2, B.digest)]
    assert find_position(team.channel).ref == found
    assert logged(store, team) == [(2, B.digest), (1, A.digest)][2 - found.serial :]
    line = len(list(store.names(REFS_LOG_PREFIX)))
    assert line == found.serial, "looking at the channel has completed its log"
    moved = team.promote(C)
    assert (moved.ref.serial, moved.ref.previous, moved.warnings) == (found.serial + 1, found.lock, ())
    assert len(list(store.names(REFS_LOG_PREFIX))) == moved.ref.serial


class Failing(MemoryStore):
    """Raises ``error`` for one write to a name that starts with ``prefix``; ``is_done``: after it was done."""

    prefix = ""
    error: StoreError | None = None
    is_done = False

    def create(self, name: str, data: bytes) -> bool:
        return self._around(name, lambda: super(Failing, self).create(name, data))

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        self._around(name, lambda: super(Failing, self).replace(name, data, version=version) is None)

    def _around(self, name: str, write: Callable[[], bool]) -> bool:
        if self.error is None or not name.startswith(self.prefix):
            return write()
        error, self.error = self.error, None
        if self.is_done:
            write()
        raise error


def failing(prefix: str, error: type[StoreError], *, is_done: bool, moves: int) -> tuple[Failing, Team]:
    store = Failing()
    fill_store(store, LOCKS)
    team = Team(store)
    for _ in range(moves):
        team.promote(A)
    store.prefix, store.error, store.is_done = prefix, error("no answer", hint="wait", where="there"), is_done
    return store, team


@pytest.mark.parametrize("moves", [0, 1])
@pytest.mark.parametrize("error", [StoreUnavailable, ObjectConflict])
def test_a_move_whose_answer_is_lost_is_a_move(error: type[StoreError], moves: int) -> None:
    """A client that tries again after a lost answer hears that somebody was faster: itself."""
    store, team = failing(REFS_PREFIX, error, is_done=True, moves=moves)
    moved = team.promote(B)
    assert current(store, team) == moved.ref
    assert logged(store, team)[0] == (moves + 1, B.digest)


@pytest.mark.parametrize("moves", [0, 1])
def test_a_move_that_may_not_have_happened_is_said_to_be_unknown(moves: int) -> None:
    _, team = failing(REFS_PREFIX, StoreUnavailable, is_done=False, moves=moves)
    with pytest.raises(StoreUnavailable, match="not known whether the channel was moved: no answer"):
        team.promote(B)
    assert team.promote(B).ref.serial == moves + 1


class Overtaken(MemoryStore):
    """Does a replacement, lets somebody else move the channel on, and then denies the first."""

    overtake: Callable[[], object] | None = None

    def replace(self, name: str, data: bytes, *, version: str) -> None:
        super().replace(name, data, version=version)
        overtake, self.overtake = self.overtake, None
        if overtake is not None:
            overtake()
            raise ObjectConflict("too late", hint="look", where=name)


def test_a_move_that_was_overtaken_after_its_answer_was_lost_is_a_move() -> None:
    """The ref says what the next one wanted; the log has ours."""
    store = Overtaken()
    fill_store(store, LOCKS)
    team = Team(store)
    team.promote(A)
    store.overtake = lambda: Team(store, "bob", now=team.now).promote(C)
    assert team.promote(B).ref.serial == 2
    assert logged(store, team) == [(3, C.digest), (2, B.digest), (1, A.digest)]


def test_a_move_without_its_line_is_a_move_with_a_warning() -> None:
    store, team = failing(REFS_LOG_PREFIX, StoreUnavailable, is_done=False, moves=0)
    moved = team.promote(A)
    assert current(store, team) == moved.ref
    assert [word in moved.warnings[0] for word in ("serial 1", "not on the log", "no answer")] == [True] * 3
    assert team.promote(B).warnings == ()
    assert logged(store, team) == [(2, B.digest), (1, A.digest)]


# --- refs that somebody touched


def put(store: PruneStore, data: bytes) -> None:
    store.delete(REF_NAME)
    store.create(REF_NAME, data)


def test_a_channel_whose_ref_was_deleted_goes_on_where_it_was(store: PruneStore, team: Team) -> None:
    """Serial 1 again would be refused by every pod that has seen serial 2."""
    team.promote(A)
    team.promote(B)
    store.delete(REF_NAME)
    moved = team.promote(C)
    assert (moved.ref.serial, moved.ref.previous) == (3, B.digest)
    assert "the ref of qwen3-8b/prod is gone; the log goes on to serial 2" in moved.warnings[0]


def test_a_channel_whose_old_ref_was_put_back_goes_on_where_it_was(store: PruneStore, team: Team) -> None:
    team.promote(A)
    old = store.get(REF_NAME, limit_bytes=1 << 20)
    team.promote(B)
    team.promote(C)
    put(store, old)
    moved = team.promote(B)
    assert (moved.ref.serial, moved.ref.previous) == (4, C.digest)
    assert "an old ref was put back: it has serial 1, and the log goes on to serial 3" in moved.warnings[0]
    assert logged(store, team)[0] == (4, B.digest)


def test_a_ref_that_has_ended_can_be_moved(store: PruneStore, team: Team) -> None:
    team.promote(A)
    team.now += timedelta(days=200)
    assert team.promote(A).ref.serial == 2
    assert current(store, team).lock == A.digest


@pytest.mark.parametrize("kind", ["of a stranger", "of another channel", "garbage"])
def test_a_ref_that_is_not_ours_is_not_moved_on(store: PruneStore, team: Team, kind: str) -> None:
    """Its serial and history would be whatever a stranger wants."""
    team.promote(A)
    if kind == "of a stranger":
        other = MemoryStore()
        fill_store(other, LOCKS)
        Team(other, key=STRANGER).promote(A)
    else:
        other = store
        Team(store, channel_name="canary").promote(A)
    name = REF_NAME if other is not store else ref_name("qwen3-8b", "canary")
    forged = b"garbage" if kind == "garbage" else other.get(name, limit_bytes=1 << 20)
    put(store, forged)
    for move in (lambda: team.promote(B), team.roll_back):
        with pytest.raises(UntrustedLockfile):
            move()
    assert store.get(REF_NAME, limit_bytes=1 << 20) == forged


# --- lines of the log that somebody touched


@pytest.mark.parametrize("kind", ["plain lock", "of another serial", "of another channel", "garbage", "stranger's"])
def test_a_line_that_was_altered_is_shown_and_never_gone_back_to(store: PruneStore, team: Team, kind: str) -> None:
    for lock in (A, B, C):
        team.promote(lock)
        Team(store, channel_name="canary").promote(lock)
    name = ref_log_name("qwen3-8b", "prod", 2)
    line = store.get(name, limit_bytes=1 << 20)
    forged = {
        "plain lock": line.replace(str(B.digest).encode(), str(A.digest).encode()),
        "of another serial": store.get(ref_log_name("qwen3-8b", "prod", 1), limit_bytes=1 << 20),
        "of another channel": store.get(ref_log_name("qwen3-8b", "canary", 1), limit_bytes=1 << 20),
        "garbage": b"{}",
        "stranger's": line.replace(SIGNER.public.key_id.encode(), STRANGER.public.key_id.encode()),
    }[kind]
    store.delete(name)
    store.create(name, forged)
    moves = list(history(store, current(store, team), trusted=team.channel.trusted))
    assert [(move.serial, bool(move.ref), bool(move.problem)) for move in moves] == [(2, False, True), (1, True, False)]
    with pytest.raises((UntrustedLockfile, StoreError)):
        team.roll_back()


def test_a_line_for_the_next_move_stops_nobody(store: PruneStore, team: Team) -> None:
    """Whoever can write to the log could block a rollback otherwise."""
    team.promote(A)
    store.create(ref_log_name("qwen3-8b", "prod", 2), b"{}")
    moved = team.promote(B)
    assert current(store, team) == moved.ref
    assert "serial 2 of qwen3-8b/prod is not on the log" in moved.warnings[0]


# --- checks, and garbage collection beside them


def test_nothing_is_moved_to_what_is_refused(store: PruneStore, team: Team) -> None:
    team.promote(A)
    before = store.get(REF_NAME, limit_bytes=1 << 20)
    other = release_lock(1, "llama-70b")
    fill_store(store, [other])
    with pytest.raises(PromotionRefused):
        team.promote(other)
    assert store.get(REF_NAME, limit_bytes=1 << 20) == before


def test_a_dry_run_says_what_would_be_and_writes_nothing(store: PruneStore, team: Team) -> None:
    team.promote(A)
    store.delete(ref_log_name("qwen3-8b", "prod", 1))
    before = sorted(store.names())
    moved = team.promote(B, dry_run=True)
    assert (moved.ref.serial, moved.ref.lock) == (2, B.digest)
    assert sorted(store.names()) == before
    assert current(store, team).lock == A.digest


def test_what_a_sweep_may_have_deleted_meanwhile_is_looked_at_again(store: PruneStore, team: Team) -> None:
    seen: list[str] = []
    lease = Lease(number=1, round=1, holder="gc", ends_s=4e9)
    store.create(LEASE, lease.to_bytes())

    def check(lock: Digest) -> None:
        team.check()(lock)
        seen.append(str(lock))
        _, version = store.get_versioned(LEASE, limit_bytes=1 << 20)
        store.replace(LEASE, replace(lease, round=2, ends_s=None).to_bytes(), version=version)

    channels.promote(team.channel, A.digest, Mover(SIGNER, START, "ann"), check=check)
    assert seen == [str(A.digest)] * 2
