"""From a manifest on disk to a plan: what ``plan``, ``build``, ``verify`` and ``explain`` begin with."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelforge.errors import InputError
from kernelforge.lockfile import Lockfile
from kernelforge.manifest import Deployment, load_manifest
from kernelforge.misses import Misses, merged
from kernelforge.plan import Plan, make_plan
from kernelforge.release.facts import facts_path, read_facts
from kernelforge.store.interface import PruneStore


@dataclass(frozen=True)
class Planned:
    """A plan, and the lockfile that the deployment was compared with."""

    plan: Plan
    lock: Lockfile | None


def plan_deployment(
    deployment: Deployment, *, store: PruneStore, domain: str, lock_path: Path, misses: Sequence[Path] = ()
) -> Planned:
    """Compare a deployment, and the keys that pods reported in the files ``misses``, with lockfile and store."""
    lock = read_lock_if_any(lock_path)
    recorded = read_facts(facts_path(lock_path))
    # What a kernel's module prints when it is imported must not get between the data on stdout.
    with contextlib.redirect_stdout(sys.stderr):
        plan = make_plan(
            deployment.name,
            deployment.requests,
            [(target.profile, target.target) for target in deployment.targets],
            store=store,
            domain=domain,
            lock=lock,
            recorded=recorded,
            missed=merged(_read_misses(path) for path in misses),
        )
    return Planned(plan, lock)


def _read_misses(path: Path) -> Misses:
    try:
        return Misses.parse(path.read_bytes(), where=str(path))
    except OSError as error:
        raise InputError(
            f"the misses document cannot be read: {error.strerror or error}", hint="check the path", where=str(path)
        ) from error


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
