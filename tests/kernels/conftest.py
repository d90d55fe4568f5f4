"""Fixtures of the device code tests: every wanted key compiled once, and all of them linked into one loaded pack."""

from __future__ import annotations

import fcntl
import os

import pytest

from kernelforge.target import Target
from tests.kernels.built_keys import DEVICES, BuiltKey, compile_all, wanted_keys
from tests.kernels.recorded_launch import RecordedPack


@pytest.fixture(scope="session")
def built_keys(tmp_path_factory: pytest.TempPathFactory) -> list[BuiltKey]:
    """Compiled by the first of pytest-xdist's workers that gets here; it takes half a minute, so the others wait."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # each worker has a folder of its own in the run's
    # Two compilers must not share a folder: both would write the same working files.
    folders = {device.arch: root / f"kernels-{device.arch}" for device in DEVICES}
    built = [key for device in DEVICES for key in wanted_keys(device, folders[device.arch])]
    done = root / "kernels-done"
    with (root / "kernels-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for folder in folders.values():
                folder.mkdir(exist_ok=True)
            compile_all(built)
            done.touch()
    return built


@pytest.fixture(scope="session")
def pack(built_keys: list[BuiltKey], tmp_path_factory: pytest.TempPathFactory) -> RecordedPack:
    """The architecture of the target does not matter to the linker."""
    objects = [(key.symbol, key.read("o")) for key in built_keys]
    return RecordedPack(objects, Target("sm_90a"), tmp_path_factory.mktemp("pack"))
