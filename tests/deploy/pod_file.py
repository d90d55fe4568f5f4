"""The Kubernetes example read the way Kubernetes does, and its commands run as plain processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
POD_FILE = ROOT / "registry" / "deploy" / "pod.yaml"
PROGRAMS = {"kernelforge": [sys.executable, "-m", "kernelforge.cli.main"], "python": [sys.executable]}
EXAMPLE_PIN = f"sha256:{'0' * 64}"


@dataclass(frozen=True)
class Step:
    """One command of the pod with its environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Mapped:
    """What stands in the file and what stands for it here, replaced wherever it occurs."""

    replacements: Mapping[str, str]

    def __call__(self, text: str) -> str:
        for there, here in self.replacements.items():
            text = text.replace(there, here)
        return text


def pod_spec() -> dict[str, Any]:
    """The pod's part of the one document in the file."""
    (document,) = yaml.safe_load_all(POD_FILE.read_text())
    spec: dict[str, Any] = document["spec"]["template"]["spec"]
    return spec


def steps() -> dict[str, Step]:
    """The commands of the file: 'pull', 'load', 'ready'."""
    spec = pod_spec()
    (init,), (engine,) = spec["initContainers"], spec["containers"]
    probe = engine["readinessProbe"]["exec"]["command"]
    return {
        "pull": Step(tuple(init["command"]), _environment(init)),
        "load": Step(tuple(engine["command"]), _environment(engine)),
        "ready": Step(tuple(probe), _environment(engine)),
    }


def run(
    step: Step, mapped: Mapped, *, more: Mapping[str, str] | None = None, isolated: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a step with its own environment and nothing else but where Python finds the package.

    ``isolated``: a command in front, which takes away what the step must not have.
    """
    program, *arguments = map(mapped, step.command)
    environment = {name: mapped(value) for name, value in step.environment.items()}
    environment |= {"PYTHONPATH": os.pathsep.join([str(ROOT)]), "PATH": "", **(more or {})}
    command = [*isolated, *PROGRAMS[program], *arguments]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)


def _environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container.get("env", [])}
