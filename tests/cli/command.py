"""Runs the real command in a process of its own, as a CI job does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """The JSON on stdout; a failing command shows its words instead."""
        assert self.out, self.err
        return json.loads(self.out)

    @property
    def totals(self) -> dict[str, int]:
        """Totals of the report."""
        return self.report["totals"]


def run(*arguments: object, cwd: Path, code_from: Path = REPOSITORY, **environment: str) -> Ran:
    """Run ``kernelforge`` in ``cwd`` with the package found in ``code_from``."""
    variables = {**os.environ, "PYTHONPATH": str(code_from), **environment}
    command = [sys.executable, "-m", "kernelforge.cli.main", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def write_manifest(folder: Path, *kernels: tuple[str, str], name: str = "small", targets: str = "[h200-sxm]") -> Path:
    """A manifest for test kernels, given as (class name, YAML of the arguments)."""
    entries = "".join(
        f"  - kernel: tests.kernel_family:{kernel}\n    arguments: {arguments}\n" for kernel, arguments in kernels
    )
    path = folder / f"{name}.yaml"
    path.write_text(f"schema: kernelforge.manifest/1\nname: {name}\ntargets: {targets}\nkernels:\n{entries}")
    return path
