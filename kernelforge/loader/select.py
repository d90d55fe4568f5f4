"""Which device profile of a lockfile is this device? A pure judgement over facts gathered elsewhere.

Every profile is accepted or rejected with all its reasons, and a refusal prints the whole list: 'no kernel for you'
without the reasons costs an operator hours. Knows no driver and no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelforge.device import DeviceProfile
from kernelforge.errors import DeviceMismatch
from kernelforge.loader.found_device import CONFIRMED_FACTS, FoundDevice
from kernelforge.lockfile import LockedPack, Lockfile
from kernelforge.target import arch_runs_on


@dataclass(frozen=True)
class Accepted:
    """The profile fits. ``is_named``: it also lists the name by which the driver knows this product."""

    profile: str
    is_named: bool

    def __str__(self) -> str:
        return f"{self.profile}: fits"


@dataclass(frozen=True)
class Rejected:
    """The profile does not fit, for all of these reasons."""

    profile: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.profile}: {'; '.join(self.reasons)}"


Verdict = Accepted | Rejected


def select_profile(lock: Lockfile, found: FoundDevice, *, host: str, only: str | None = None) -> str:
    """Name of the profile to use; ``only`` restricts the choice to one, which is checked all the same.

    Of several that fit, those win that list the driver's name of the product; if these have different packs the caller
    must choose. Raises ``DeviceMismatch`` with the verdict on every profile.
    """
    if only is not None and only not in lock.devices:
        known = ", ".join(sorted(lock.devices))
        raise DeviceMismatch(f"the lockfile has no device profile {only!r}", hint=f"it has: {known}")
    names = sorted(lock.devices) if only is None else [only]
    verdicts = [judge(lock.devices[name], lock.packs.get(name), found, host) for name in names]
    fitting = [verdict for verdict in verdicts if isinstance(verdict, Accepted)]
    preferred = [verdict for verdict in fitting if verdict.is_named] or fitting
    if not preferred:
        raise _refusal(
            f"no device profile of the lockfile fits {found}",
            verdicts,
            "build for this device: 'kernelforge doctor --device' prints a profile of it",
        )
    if len({lock.packs[verdict.profile].blob.content_digest for verdict in preferred}) > 1:
        raise _refusal(f"several device profiles with different packs fit {found}", verdicts, "choose one: profile=...")
    return preferred[0].profile


def judge(profile: DeviceProfile, pack: LockedPack | None, found: FoundDevice, host: str) -> Verdict:
    """Accept or reject one profile, and the pack that the lockfile has for it, for a device and host."""
    reasons = tuple(_contradictions(profile, pack, found, host))
    if reasons:
        return Rejected(profile.name, reasons)
    return Accepted(profile.name, is_named="driver_names" in profile.facts)


def _contradictions(profile: DeviceProfile, pack: LockedPack | None, found: FoundDevice, host: str) -> Iterator[str]:
    if pack is None:
        yield "the lockfile has no pack for it"
    for arch in sorted({profile.arch} | ({pack.target.arch} if pack else set())):
        if not arch_runs_on(arch, found.capability):
            yield f"code for {arch} does not run on an sm_{found.capability[0]}{found.capability[1]} device"
    if pack is not None and pack.target.host != host:
        yield f"its pack is for {pack.target.host}, this machine is {host}"
    for fact in CONFIRMED_FACTS:
        if fact in profile.facts and profile.facts[fact].value != getattr(found, fact):
            yield f"{fact} is {profile.facts[fact].value} in the profile and {getattr(found, fact)} on the device"
    if "driver_names" in profile.facts and found.name not in profile.driver_names:
        names = ", ".join(map(repr, profile.driver_names))
        yield f"the driver calls the device {found.name!r}, the profile {names}"


def _refusal(problem: str, verdicts: Sequence[Verdict], hint: str) -> DeviceMismatch:
    return DeviceMismatch("\n  ".join([f"{problem}:", *map(str, verdicts)]), hint=hint)
