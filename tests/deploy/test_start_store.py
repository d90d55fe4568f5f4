"""The local store for trying things: one command, and everything works against it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelforge.store.blobs import get_blob, put_blob
from kernelforge.store.locate import open_store
from tests.deploy.pod_file import ROOT
from tests.seaweed import free_ports

SCRIPT = ROOT / "registry" / "deploy" / "start_store.py"


@pytest.fixture
def exports(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables that it tells people to export."""
    command = [sys.executable, str(SCRIPT), "--folder", str(tmp_path / "data"), "--port", str(free_row_of_ports())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        yield dict(re.findall(r"(\w+)='?([^' \n]+)'?", "".join(lines)))
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    assert "ready" in told


def free_row_of_ports() -> int:
    """The first of five ports in a row, by trying the candidates that are free."""
    return free_ports(1)[0]


@pytest.mark.slow
def test_what_it_prints_is_enough_to_store_and_fetch(exports: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in exports.items():
        monkeypatch.setenv(name, value)
    store = open_store(os.environ["KERNELFORGE_STORE"])
    blob = put_blob(store, b"bytes of a pack")
    assert get_blob(store, blob) == b"bytes of a pack"


def test_help_says_which_ports_it_takes() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True, check=True)
    assert "--port" in done.stdout
    assert "5 ports" in done.stdout
