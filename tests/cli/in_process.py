"""Runs the command in the test's own process: the real ``main``, with its exit codes, twenty times faster."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from kernelforge.cli.main import main
from tests.cli.command import Ran


class Kernelforge:
    """``kernelforge("verify", lock)`` runs in ``folder`` and gives exit code, stdout and stderr."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: object, stdin: bytes = b"", **environment: str) -> Ran:
        self._capsys.readouterr()
        with self._monkeypatch.context() as patch:
            patch.chdir(self.folder)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            with pytest.raises(SystemExit) as end:
                main([str(argument) for argument in arguments])
        said = self._capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return Ran(code, said.out, said.err)
