"""The digest that ranks compare: moved by what changes results, by nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from kernelforge.digest import Digest
from kernelforge.loader.decision import decision_digest
from tests.loader.conftest import Release

FACTS: dict[str, Any] = {
    "lockfile": Digest.of(b"lock"),
    "profile": "h200-sxm",
    "pack": Digest.of(b"pack"),
    "policy": "strict",
    "missing": ("kf_a", "kf_b"),
}


@pytest.mark.parametrize(
    "change",
    [
        {"lockfile": Digest.of(b"other")},
        {"profile": "h100-sxm"},
        {"pack": Digest.of(b"other")},
        {"policy": "jit"},
        {"missing": ("kf_a",)},
        {"missing": ()},
    ],
    ids=str,
)
def test_every_fact_counts(change: dict[str, Any]) -> None:
    assert decision_digest(**{**FACTS, **change}) != decision_digest(**FACTS)


def test_the_order_in_which_keys_were_asked_for_does_not_count() -> None:
    assert decision_digest(**{**FACTS, "missing": ["kf_b", "kf_a", "kf_b"]}) == decision_digest(**FACTS)


def test_where_the_bytes_came_from_does_not_count(release: Release) -> None:
    from_store, from_cache = release.load(), release.load()
    assert from_store.stats().pack_source != from_cache.stats().pack_source
    assert from_store.decision == from_cache.decision
