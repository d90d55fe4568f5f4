"""From a manifest on disk to a plan: what ``plan``, ``build``, ``verify`` and ``explain`` begin with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelforge.lockfile import Lockfile
from kernelforge.manifest import Deployment, load_manifest
from kernelforge.plan import Plan, make_plan
from kernelforge.release.facts import facts_path, read_facts
from kernelforge.store.interface import PruneStore


@dataclass(frozen=True)
class Planned:
    """A deployment with its plan, and the lockfile that it was compared with."""

    deployment: Deployment
    plan: Plan
    lock: Lockfile | None
    recorded: dict[str, dict[str, Any]]


def plan_deployment(deployment: Deployment, *, store: PruneStore, domain: str, lock_path: Path) -> Planned:
    """Compare a deployment with its previous lockfile and the store."""
    lock = read_lock_if_any(lock_path)
    recorded = read_facts(facts_path(lock_path))
    plan = make_plan(
        deployment.name,
        deployment.requests,
        [(target.profile, target.target) for target in deployment.targets],
        store=store,
        domain=domain,
        lock=lock,
        recorded=recorded,
    )
    return Planned(deployment, plan, lock, recorded)


def read_deployment(manifest: Path) -> Deployment:
    """Read a manifest. Kernels that it names are found under the working folder, as ``python -m`` would find them."""
    working_folder = str(Path.cwd())
    if working_folder not in sys.path:
        sys.path.insert(0, working_folder)
    return load_manifest(manifest)


def read_lock_if_any(path: Path) -> Lockfile | None:
    """The lockfile at ``path``, or nothing if there is none; one that cannot be read is an error."""
    try:
        return Lockfile.parse(path.read_bytes(), where=str(path))
    except FileNotFoundError:
        return None
