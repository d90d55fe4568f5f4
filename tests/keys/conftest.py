"""The fake kernel family as an importable project, and baselines that tests vary in one place."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keys.golden import FAMILY


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the family on `sys.path`; what a test imports from it is forgotten afterwards."""
    shutil.copytree(FAMILY, tmp_path / FAMILY.name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {FAMILY.name, "sample"}:
            del sys.modules[name]
