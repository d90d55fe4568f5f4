"""Build facts beside a lockfile: read back whole, and never a reason to fail for want of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import LockfileError
from kernelforge.release.facts import facts_bytes, facts_path, read_facts

LOCK = Digest.of(b"lock")
FACTS: dict[str, dict[str, Any]] = {
    str(Digest.of(b"b")): {"seconds": 0.5, "registers": 40, "undefined": ["abort"], "ptxas": "13.4.59"},
    str(Digest.of(b"a")): {"seconds": 1.25},
}


def test_round_trip(tmp_path: Path) -> None:
    path = facts_path(tmp_path / "x.lock.json")
    path.write_bytes(facts_bytes(LOCK, FACTS))
    assert read_facts(path) == FACTS


def test_equal_facts_have_equal_bytes() -> None:
    """They are reviewed in git beside the lockfile: the order in which workers finished must not show."""
    data = facts_bytes(LOCK, FACTS)
    assert data == facts_bytes(LOCK, dict(reversed(FACTS.items())))
    assert data.endswith(b"}\n")
    assert facts_bytes(Digest.of(b"other"), FACTS) != data


@pytest.mark.parametrize(
    ("lockfile", "facts"),
    [
        ("a/qwen3-8b.lock.json", "a/qwen3-8b.facts.json"),
        ("x.json", "x.json.facts.json"),
        ("a.b.lock.json", "a.b.facts.json"),
    ],
)
def test_the_companion_stands_beside_its_lockfile(lockfile: str, facts: str) -> None:
    assert facts_path(Path(lockfile)) == Path(facts)


def test_no_companion_means_no_facts(tmp_path: Path) -> None:
    """A lockfile that came alone is as good as one with facts: only 'seconds saved' is unknown."""
    assert read_facts(tmp_path / "x.facts.json") == {}


GOOD = facts_bytes(LOCK, FACTS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        GOOD[:-20],
        b"[" * 100_000,
        b"\xff\xfe",
        GOOD.replace(b"facts/1", b"facts/2"),
        b'{"schema": "kernelforge.facts/1", "lock": "x"}',
        b'{"schema": "kernelforge.facts/1", "lock": "x", "keys": []}',
        b'{"schema": "kernelforge.facts/1", "lock": "x", "keys": {"a": 1}}',
        b'{"schema": "kernelforge.facts/1", "lock": "x", "keys": null}',
        GOOD.replace(b"0.5", b"NaN"),
    ],
    ids=lambda data: repr(data[:70]),
)
def test_another_document_is_refused_with_what_to_do(tmp_path: Path, data: bytes) -> None:
    """It stands in git beside the lockfile, where a merge may have damaged it: say so, and that it can go."""
    path = tmp_path / "x.facts.json"
    path.write_bytes(data)
    with pytest.raises(LockfileError, match="no build facts") as caught:
        read_facts(path)
    assert caught.value.where == str(path)
    assert "delete it" in caught.value.hint


def test_a_folder_in_its_place_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(LockfileError, match="no build facts"):
        read_facts(tmp_path)
