"""``kernelforge gc`` as an operator uses it: look, run, wait, run; pin what must stay; say no to too much."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelforge.store.file import FileStore
from tests.cli.in_process import Kernelforge
from tests.release.gc.world import make_release, point, publish

KEPT = make_release("qwen", [f"a{n}" for n in range(40)])
GONE = make_release("qwen", ["a0", "b", "c"])
DAY_S = 86400


def age(folder: Path, days: float) -> None:
    """Make everything in a store older."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        then = path.stat().st_mtime - days * DAY_S
        os.utime(path, (then, then))


@pytest.fixture
def kernelforge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kernelforge:
    """The command line, beside the store."""
    return Kernelforge(tmp_path, monkeypatch, capsys)


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """A folder with a release that is served and one that nothing keeps, both old."""
    filled = FileStore(tmp_path / "store")
    publish(filled, GONE)
    publish(filled, KEPT)
    point(filled, KEPT)
    age(tmp_path / "store", 100)
    return filled


def needless() -> set[str]:
    return GONE.needed - KEPT.needed


def test_a_plan_says_what_how_much_and_why(kernelforge: Kernelforge, store: FileStore) -> None:
    before = set(store.names())
    ran = kernelforge("gc", "--store", "store")
    assert ran.code == 0, ran.err
    assert "newly unreachable 11 (" in ran.out
    assert "no lockfile that is kept names its key" in ran.out
    assert "a later run" in ran.out
    assert "--run deletes" in ran.out
    assert set(store.names()) == before


def test_two_runs_a_day_apart(kernelforge: Kernelforge, store: FileStore, tmp_path: Path) -> None:
    first = kernelforge("gc", "--store", "store", "--run", "--json")
    assert first.code == 0, first.err
    assert first.report["deleted"] == {"objects": 0, "bytes": 0, "spared": 0}
    assert {found["name"] for found in first.report["candidates"]} >= needless()
    assert {found["state"] for found in first.report["candidates"]} == {"new"}
    waiting = kernelforge("gc", "--store", "store", "--run")
    assert "waiting 11" in waiting.out
    assert "from 2" in waiting.out
    done = kernelforge("gc", "--store", "store", "--run", "--grace-hours", "0", "--json")
    assert done.report["deleted"]["objects"] == len(first.report["candidates"])
    assert not needless() & set(store.names())
    assert KEPT.needed <= set(store.names())
    assert "0 objects" not in kernelforge("gc", "--store", "store").out


def test_a_pin_keeps_and_an_unpinned_lockfile_goes(kernelforge: Kernelforge, store: FileStore, tmp_path: Path) -> None:
    lockfile = tmp_path / "old.lock.json"
    lockfile.write_bytes(GONE.lock.to_bytes())
    pinned = kernelforge("gc", "--store", "store", "--pin", "audit", "old.lock.json", "--json")
    assert [(pin["name"], pin["lock"]) for pin in pinned.report["pins"]] == [("audit", str(GONE.lock.digest))]
    assert "audit kept already" in kernelforge("gc", "--store", "store", "--pin", "audit", str(GONE.lock.digest)).err
    assert "audit" in kernelforge("gc", "--store", "store", "--pins").out
    age(tmp_path / "store", 100)
    left_over = kernelforge("gc", "--store", "store", "--json").report["candidates"]
    assert {found["kind"] for found in left_over} == {"announcement"}
    gone = kernelforge("gc", "--store", "store", "--unpin", "audit")
    assert str(GONE.lock.digest) in gone.err
    names = {found["name"] for found in kernelforge("gc", "--store", "store", "--json").report["candidates"]}
    assert needless() <= names
    assert kernelforge("gc", "--store", "store", "--unpin", "audit").code == 3


def test_too_much_is_refused_with_exit_code_1(kernelforge: Kernelforge, store: FileStore) -> None:
    for more in ([], ["--run"]):
        ran = kernelforge("gc", "--store", "store", "--allow-fraction", "0.01", *more)
        assert ran.code == 1
        assert "newly unreachable, allowed are 1%" in ran.err
    assert GONE.needed <= set(store.names())


def test_a_limit_that_cannot_be_kept_is_exit_code_1(kernelforge: Kernelforge, store: FileStore) -> None:
    ran = kernelforge("gc", "--store", "store", "--max-bytes", "10kB")
    assert ran.code == 1
    assert "larger than --max-bytes" in ran.err


def test_a_root_that_cannot_be_read_is_exit_code_3(kernelforge: Kernelforge, store: FileStore) -> None:
    store.create("v1/pins/broken.json", b"{")
    ran = kernelforge("gc", "--store", "store", "--run")
    assert ran.code == 3
    assert "v1/pins/broken.json" in ran.err
    assert "nothing is deleted" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "--pins"], "four different things"),
        (["--max-bytes", "many"], "no size such as 50GiB"),
        (["--max-bytes", "-5"], "no size such as 50GiB"),
        (["--allow-fraction", "20"], "0<=x<=1"),
        (["--grace-hours", "-1"], "x>=0"),
        (["--pin", "a/b", "sha256:" + "ab" * 32], "cannot name a pin"),
        (["--pin", "a", "sha256:xyz"], "is not a digest"),
        (["--pin", "a", "no-such-file"], "no-such-file"),
    ],
)
def test_what_makes_no_sense_is_exit_code_2(
    kernelforge: Kernelforge, store: FileStore, arguments: list[str], said: str
) -> None:
    ran = kernelforge("gc", "--store", "store", *arguments)
    assert (ran.code, said in ran.err) == (2, True), ran.err


def test_a_strange_object_is_told(kernelforge: Kernelforge, store: FileStore) -> None:
    store.create("readme.txt", b"ours")
    assert "1 object of unknown names, which are left alone: readme.txt" in " ".join(
        kernelforge("gc", "--store", "store").out.split()
    )
