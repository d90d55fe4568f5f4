"""Code in a Python process of its own, for what would stay in the tests' process: libraries, imports, environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_python(code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """What ``code`` writes to stdout; its ``sys.argv[1:]`` are ``arguments``. Fails the test if it fails."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
