"""A deployment as a value: what ``load_manifest`` makes of a manifest, and what every later room starts from.

It holds nothing about where the manifest lies that could reach a key; ``path``, lines and origins are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from kernelforge.device import DeviceProfile
from kernelforge.manifest.yaml_scalar import Scalar
from kernelforge.request import KernelRequest
from kernelforge.target import Target


@dataclass(frozen=True)
class DeploymentTarget:
    """One device to build for: its facts, and what they, the host and the CUDA flavour come to as a target."""

    profile: DeviceProfile
    target: Target


@dataclass(frozen=True)
class Deployment:
    """``requests`` are to be expanded for each of ``targets``; both are in the manifest's order.

    ``model`` and ``engine`` are the resolved values that ``{from: ...}`` can reach, for reports.
    """

    name: str
    targets: tuple[DeploymentTarget, ...]
    requests: tuple[KernelRequest, ...]
    model: Mapping[str, Scalar] = field(default_factory=dict)
    engine: Mapping[str, Scalar] = field(default_factory=dict)
    path: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        # Read-only: a key computed twice from one deployment must come out the same.
        object.__setattr__(self, "model", MappingProxyType(dict(self.model)))
        object.__setattr__(self, "engine", MappingProxyType(dict(self.engine)))
