"""A device profile measured on the card at hand: what ``kernelforge doctor --device`` prints.

Knows the driver and nothing of YAML; the date is handed in, so that the result depends on the card alone.
"""

from __future__ import annotations

from kernelforge.device import DeviceProfile, Fact, FactValue
from kernelforge.loader.driver import find_device
from kernelforge.loader.found_device import CONFIRMED_FACTS, FoundDevice
from kernelforge.loader.occupancy import max_active_clusters
from kernelforge.target import ARCHITECTURES, check_arch, compute_capability


def measured_profile(ordinal: int = 0, *, name: str, date: str) -> DeviceProfile:
    """Profile ``name`` of one device, every fact with its source: 'measured on the card, driver X, ``date``'.

    Raises ``RuntimeUnfit`` without a working driver, ``DeviceMismatch`` without that device, ``TargetError`` for a
    card of an architecture that nothing is built for.
    """
    return describe(find_device(ordinal), max_active_clusters(ordinal), name=name, date=date)


def describe(found: FoundDevice, clusters: dict[int, int], *, name: str, date: str) -> DeviceProfile:
    """The same from facts already gathered; ``clusters`` is cluster size -> clusters resident at once."""
    source = f"measured on the card, driver for CUDA {found.driver_cuda[0]}.{found.driver_cuda[1]}, {date}"
    values: dict[str, FactValue] = {fact: getattr(found, fact) for fact in (*CONFIRMED_FACTS, "memory_bytes")}
    values["driver_names"] = (found.name,)
    if clusters:
        # The driver answers 0 for a size that the card cannot run.
        values["max_active_clusters"] = {str(size): count for size, count in clusters.items() if count}
    facts = {fact: Fact(value, source) for fact, value in values.items()}
    return DeviceProfile(name=name, arch=_native_arch(found.capability), facts=facts)


def _native_arch(capability: tuple[int, int]) -> str:
    """The architecture that uses all of a card: with the suffix ``a`` where there is one."""
    exact = [arch for arch in ARCHITECTURES if compute_capability(arch) == capability]
    with_suffix = [arch for arch in exact if arch.endswith("a")]
    return next(iter(with_suffix + exact), None) or check_arch(f"sm_{capability[0]}{capability[1]}")
