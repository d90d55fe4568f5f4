"""Golden vectors: what was built yesterday must be found today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernelforge.keys.key_digest import KEY_SCHEMA_VERSION
from tests.keys.golden import FILE, vectors

GOLDEN = json.loads(FILE.read_text())


@pytest.fixture
def found(family: Path) -> dict[str, Any]:
    return vectors()


def test_digests_have_not_changed(found: dict[str, Any]) -> None:
    """Case B10: the digest code changed and the version stamp did not, so every hit was lost in silence."""
    assert found == GOLDEN, "raise KEY_SCHEMA_VERSION, then run python -m tests.keys.golden"


def test_vectors_belong_to_this_schema() -> None:
    """Raising the schema without new vectors would leave the new digests unpinned."""
    assert GOLDEN["schema"] == KEY_SCHEMA_VERSION


def test_there_are_enough_vectors() -> None:
    """Distinct keys and targets, or the file would pin one digest many times."""
    assert len({entry["key_digest"] for entry in GOLDEN["entries"]}) == len(GOLDEN["entries"]) >= 20
    assert len({entry["symbol"] for entry in GOLDEN["entries"]}) == len(GOLDEN["entries"]) // 3
