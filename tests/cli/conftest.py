"""Fixtures for commands: a release made once, and a copy of it with a command line for each test."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.in_process import Kernelforge
from tests.cli.released import Release, make_release


@pytest.fixture(scope="session")
def built_release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Two widths of ``Copy`` for two architectures, under the name ``small``."""
    kernel = ("Copy", "{width: {choices: [32, 64]}}")
    return make_release(tmp_path_factory.mktemp("release"), kernel, targets="[h200-sxm, b200]")


@pytest.fixture
def release(built_release: Release, tmp_path: Path) -> Release:
    """A copy that the test may damage."""
    folder = tmp_path / "release"
    shutil.copytree(built_release.folder, folder)
    lock_path = folder / built_release.lock_path.relative_to(built_release.folder)
    return replace(built_release, folder=folder, manifest=folder / "small.yaml", lock_path=lock_path)


@pytest.fixture
def kernelforge(release: Release, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kernelforge:
    """The command line, in the folder of the release."""
    for variable in ("STORE", "LOCK", "CACHE", "PIN", "SIGNING_KEY", "TRUSTED_KEYS"):
        monkeypatch.delenv(f"KERNELFORGE_{variable}", raising=False)
    return Kernelforge(release.folder, monkeypatch, capsys)
