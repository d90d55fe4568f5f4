"""Keys that pods had to compile -> compile keys for a plan, or an error that says why a report cannot be used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from kernelforge.errors import ContractError
from kernelforge.keys.rebuild import rebuild_key
from kernelforge.misses import MissedKey
from kernelforge.target import Target


@dataclass(frozen=True)
class ReportedKey:
    """A compile key, the device profile and target that it is wanted for, and how often pods missed it."""

    kernel: str
    key: Any
    device: str
    target: Target
    count: int


def rebuild_reported(missed: Sequence[MissedKey], targets: Collection[tuple[str, Target]]) -> list[ReportedKey]:
    """Rebuild every key; ``targets`` are the (device profile, target) pairs of the deployment.

    Raises ``ContractError``: a report is for another device or target, its kernel does not exist, or the key cannot be
    rebuilt for the class as it is now.
    """
    for miss in missed:
        if (miss.device, miss.target) not in targets:
            known = ", ".join(f"{device} ({target})" for device, target in sorted(targets))
            raise ContractError(
                f"pods missed {miss}, which the manifest does not build for; it builds for {known}",
                hint="add the device to its targets, or leave that report out",
                where=miss.kernel,
            )
    return [
        ReportedKey(miss.kernel, rebuild_key(miss.kernel, miss.compile_key), miss.device, miss.target, miss.count)
        for miss in missed
    ]
