"""Ranks of one node, threads of one process, and forks: cases D1 and D4 for downloads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kernelforge
from kernelforge import PinnedDigest
from kernelforge.digest import Digest
from kernelforge.errors import LoadedBeforeFork
from kernelforge.loader.kernel_set import KernelSet
from kernelforge.store.blobs import put_blob
from kernelforge.store.file import FileStore
from tests.loader.conftest import Release
from tests.loader.fake_release import H200, KEYS, compile_pack, lockfile
from tests.loader.python_process import ROOT
from tests.loader.rank import CountingStore

RANKS = 8


class Node:
    """A store that counts and a place where ranks start together."""

    def __init__(self, release: Release) -> None:
        self.folder = release.folder
        self.cache = release.cache
        self.lock = release.folder / "x.lock.json"
        self.lock.write_bytes(release.lock.to_bytes())
        put_blob(FileStore(self.folder / "store"), release.library, compress=False)

    def start_rank(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.loader.rank", str(self.lock), str(self.cache), str(self.folder)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def go(self, ranks: int) -> None:
        wait_until(lambda: len(list(self.folder.glob("ready-*"))) == ranks)
        (self.folder / "go").touch()

    def gets(self) -> list[str]:
        notes = self.folder / "gets"
        return notes.read_text().splitlines() if notes.exists() else []


@pytest.fixture
def node(release: Release) -> Node:
    return Node(release)


def wait_until(happened: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < ends_at, "it never happened"
        time.sleep(0.005)


def outcome(rank: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = rank.communicate(timeout=60)
    assert rank.returncode == 0
    answer: dict[str, Any] = json.loads(output)
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("damage", [None, b"half"], ids=["cold", "damaged"])
def test_eight_cold_ranks_download_once(release: Release, node: Node, damage: bytes | None) -> None:
    """D1: 1 miss, 7 waited; a damaged copy in the cache changes nothing of that."""
    if damage is not None:
        release.load()
        release.cached.unlink()  # this process has it open
        release.cached.write_bytes(damage)
    ranks = [node.start_rank() for _ in range(RANKS)]
    node.go(RANKS)
    outcomes = [outcome(rank) for rank in ranks]
    assert [one["results"] for one in outcomes] == [[1, 2, 3]] * RANKS
    assert len(node.gets()) == 1
    assert sum(one["downloads"] for one in outcomes) == 1
    assert sum(one["source"] == "store" for one in outcomes) == 1
    # One that looks after the download has ended finds the pack in the cache at once.
    assert sum(one["waited"] for one in outcomes) == RANKS - 1
    assert len({one["decision"] for one in outcomes}) == 1
    assert [file.name for file in release.cached.parent.iterdir()] == [release.cached.name]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_holder_that_never_finishes_delays_nobody_for_ever(release: Release, node: Node, end: signal.Signals) -> None:
    """D4: killed, its lock is free at once; stopped, it is waited for as long as was said and not longer."""
    holder = node.start_rank()
    try:
        node.go(1)
        wait_until(lambda: len(node.gets()) == 1)
        os.kill(holder.pid, end)
        if end == signal.SIGKILL:
            holder.wait()
        # Half of the budget is for waiting. The other half is for the download, which takes 0.5 s here.
        store = CountingStore(node.folder / "store", node.folder / "gets")
        kernels = release.load(store=store, budget_s=4 if end == signal.SIGSTOP else 600)
        assert [kernels[key](1) for key in KEYS] == [1, 2, 3]
        assert kernels.stats().pack_source == "store"
        assert kernels.stats().counters.get("waited", 0) == (1 if end == signal.SIGSTOP else 0)
    finally:
        holder.kill()
        holder.communicate()


def test_threads_share_one_download(release: Release, node: Node) -> None:
    store = CountingStore(node.folder / "store", node.folder / "gets")
    data = release.lock.to_bytes()
    together = threading.Barrier(RANKS)

    def load(_: int) -> KernelSet:
        together.wait()
        return kernelforge.load(
            data, trust=PinnedDigest(Digest.of(data)), store=store, cache=release.cache, device=H200
        )

    with ThreadPoolExecutor(RANKS) as pool:
        loaded = list(pool.map(load, range(RANKS)))
    assert len(node.gets()) == 1
    assert all([kernels[key](1) for key in KEYS] == [1, 2, 3] for kernels in loaded)
    assert len({kernels.decision for kernels in loaded}) == 1


def test_threads_with_different_lockfiles_get_their_own_kernels(release: Release, tmp_path: Path) -> None:
    """Packs with the same symbols in another order: a mix-up would give other results."""
    (tmp_path / "second").mkdir()
    symbols = [entry.symbol for entry in release.lock.entries]
    library = compile_pack(tmp_path / "second", ["kf_first", *symbols])
    put_blob(release.store, library, compress=False)
    locks = [release.lock.to_bytes(), lockfile(library).to_bytes()]
    together = threading.Barrier(RANKS)

    def load(number: int) -> list[int]:
        data = locks[number % 2]
        together.wait()
        kernels = kernelforge.load(
            data, trust=PinnedDigest(Digest.of(data)), store=release.store, cache=release.cache, device=H200
        )
        return [kernels[key](1) for key in KEYS]

    with ThreadPoolExecutor(RANKS) as pool:
        assert list(pool.map(load, range(RANKS))) == [[1, 2, 3], [2, 3, 4]] * (RANKS // 2)


def test_one_kernel_set_serves_many_threads(release: Release) -> None:
    kernels = release.load()
    together = threading.Barrier(RANKS)

    def call(_: int) -> list[int]:
        together.wait()
        return [kernels[key](number) for number in range(200) for key in KEYS]

    with ThreadPoolExecutor(RANKS) as pool:
        assert list(pool.map(call, range(RANKS))) == [[n * f for n in range(200) for f in (1, 2, 3)]] * RANKS
    assert kernels.stats().hits == len(KEYS)


def in_a_fork(body: Callable[[], str]) -> str:
    """What ``body`` returns or raises in a forked child of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = body()
        except BaseException as error:  # noqa: BLE001 (whatever it is, the test has to see it)
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def test_kernels_loaded_before_a_fork_are_refused_after_it(release: Release) -> None:
    """CUDA's own error in the child names no cause. The parent goes on."""
    kernels = release.load()
    assert kernels[KEYS[0]](1) == 1
    answer = in_a_fork(lambda: str(kernels[KEYS[0]](1)))
    assert answer.startswith("LoadedBeforeFork")
    assert "load in the child" in answer
    assert kernels[KEYS[0]](2) == 2


def test_a_callable_that_was_held_over_a_fork_explains_cudas_error(release: Release) -> None:
    """The fake pack answers negative numbers as a launch answers in a forked child."""
    kernel = release.load()[KEYS[0]]
    answer = in_a_fork(lambda: str(kernel(-1)))
    assert answer.startswith("LoadedBeforeFork")
    with pytest.raises(RuntimeError, match="device lost") as unchanged:
        kernel(-1)
    assert not isinstance(unchanged.value, LoadedBeforeFork)


def test_a_child_may_load_for_itself(release: Release) -> None:
    assert in_a_fork(lambda: str([release.load()[key](1) for key in KEYS])) == "[1, 2, 3]"
