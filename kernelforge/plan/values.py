"""A plan as a value: every key with its decision, and what a lockfile needs beside them. Decides nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelforge.descriptor import Descriptor
from kernelforge.device import DeviceProfile
from kernelforge.digest import Digest
from kernelforge.errors import StoreError
from kernelforge.fingerprint import Fingerprint
from kernelforge.keys.key_digest import KeyPreimage
from kernelforge.keys.toolchain import Toolchain
from kernelforge.lockfile import LockedPack
from kernelforge.reporting import Expansion
from kernelforge.request import KernelRequest
from kernelforge.target import Target


@dataclass(frozen=True)
class Hit:
    """The object exists. ``seconds`` is the CPU time that its compile took when it was built, if that is on record."""

    object: Descriptor
    reason: str
    facts: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True)
class Miss:
    """The key must be compiled, because of ``reason``.

    ``earlier`` is the key digest that the same compile key has in the previous release, if nothing but sources is known
    to have changed since.
    """

    reason: str
    earlier: Digest | None = None


@dataclass(frozen=True)
class StoreTrouble:
    """Nobody knows whether the object exists: the store failed. Never counted as a miss."""

    error: StoreError

    @property
    def reason(self) -> str:
        """The same words for all keys that meet the same trouble, so that reports show it once."""
        return f"{type(self.error).__name__}: {self.error.problem} (hint: {self.error.hint})"


Decision = Hit | Miss | StoreTrouble


@dataclass(frozen=True)
class PlannedKey:
    """One (kernel, compile key, target) and what is to be done about it; ``devices`` are the profiles that use it.

    ``reported``: how often pods missed it, 0 for a key that requests lead to for each of its devices.
    ``seconds_before`` is the CPU time that the same compile key took in the previous release; None if that is not on
    record.
    """

    kernel: str
    compile_key: Mapping[str, Any]
    symbol: str
    target: Target
    devices: tuple[str, ...]
    preimage: KeyPreimage
    key_digest: Digest
    decision: Decision
    reported: int = 0
    seconds_before: float | None = None


@dataclass(frozen=True)
class KernelSources:
    """What a kernel class is made of: device code (in the key) and launch code (in the lockfile)."""

    device: Fingerprint
    launch: Fingerprint
    compile_options: str


@dataclass(frozen=True)
class Decided:
    """What lockfile and store said.

    ``published``: digest of the lockfile, if this domain has published it and its word counts. ``packs``: those of it
    that the store was seen to have. ``damaged``: stored digests on the store's list of damage.
    """

    keys: tuple[PlannedKey, ...]
    published: Digest | None = None
    packs: Mapping[str, LockedPack] = field(default_factory=dict)
    damaged: frozenset[Digest] = frozenset()


@dataclass(frozen=True)
class Plan:
    """A decision for every key of a deployment, and what a lockfile needs beside them.

    ``published``, ``packs`` and ``damaged`` are those of ``Decided``.
    """

    name: str
    keys: tuple[PlannedKey, ...]
    expansions: tuple[Expansion, ...]
    kernels: Mapping[str, KernelSources]
    toolchains: Mapping[str, Toolchain]
    targets: Mapping[str, tuple[DeviceProfile, Target]]
    requests: tuple[KernelRequest, ...]
    published: Digest | None = None
    packs: Mapping[str, LockedPack] = field(default_factory=dict)
    damaged: frozenset[Digest] = frozenset()

    def decided(self, kind: type[Decision]) -> tuple[PlannedKey, ...]:
        """The keys whose decision is of this kind."""
        return tuple(key for key in self.keys if isinstance(key.decision, kind))
