"""A device profile: the facts about one GPU product that kernels may depend on, each with its source.

Profiles are values. Reading them from YAML is the manifest's work, asking a driver is the loader's; this module knows
neither. A device fact reaches device code only as a field of a compile key, so that two products with equal facts
share objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelforge import json_values
from kernelforge.errors import InputError, UnknownFact
from kernelforge.target import check_arch

FactValue = int | str | tuple[str, ...] | Mapping[str, int]

# Name -> (type, what it means). A profile may leave out what nobody has measured, and hold nothing that is not here.
FACTS: dict[str, tuple[type, str]] = {
    "num_sms": (int, "streaming multiprocessors"),
    "shared_memory_per_block_bytes": (int, "largest dynamic shared memory of one block, after opting in"),
    "shared_memory_per_sm_bytes": (int, "shared memory of one SM"),
    "registers_per_sm": (int, "32-bit registers of one SM"),
    "l2_bytes": (int, "level 2 cache"),
    "memory_bytes": (int, "device memory as the vendor states it"),
    "max_active_clusters": (dict, "cluster size -> clusters resident at once with full shared memory"),
    "driver_names": (tuple, "what cuDeviceGetName answers for this product"),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact and where it comes from: a measurement (date, driver) or a vendor's document."""

    value: FactValue
    source: str


@dataclass(frozen=True)
class DeviceProfile:
    """Facts about one GPU product. ``profile.num_sms`` reads a fact; an undeclared one raises ``UnknownFact``."""

    name: str
    arch: str
    facts: Mapping[str, Fact]

    def __post_init__(self) -> None:
        check_arch(self.arch)
        for name, fact in self.facts.items():
            _check_fact(self.name, name, fact)
            # As an attribute it is read 20 times faster than through __getattr__: dispatch reads facts at every point.
            object.__setattr__(self, name, fact.value)

    def __getattr__(self, name: str) -> Any:
        # Only for what is no fact of this profile. Copying looks for dunder names before `facts` exists.
        if name.startswith("__"):
            raise AttributeError(name)
        return self.fact(name)

    def fact(self, name: str) -> FactValue:
        """The value of a fact; ``UnknownFact`` names the fact and the profile when it is not declared."""
        if name not in self.facts:
            raise UnknownFact(
                f"device profile {self.name!r} does not declare {name!r}",
                hint=f"add facts.{name} with its source to the profile"
                if name in FACTS
                else f"facts: {', '.join(FACTS)}",
                where=self.name,
                fact=name,
            )
        return self.facts[name].value

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: ``{"name", "arch", "facts": {name: {"value", "source"}}}``."""
        facts = {name: {"value": _plain(fact.value), "source": fact.source} for name, fact in self.facts.items()}
        return {"name": self.name, "arch": self.arch, "facts": facts}

    @classmethod
    def from_json(cls, data: object) -> DeviceProfile:
        """Inverse of ``to_json``; raises ``InputError`` for anything else, unknown members included."""
        try:
            return cls(**json_values.members(data, _PROFILE))
        except ValueError as error:
            raise InputError(f"not a device profile: {error}", hint="see specs/devices for examples") from error


def _check_fact(profile: str, name: str, fact: Fact) -> None:
    if name not in FACTS:
        raise _refused(profile, name, f"{name!r} is no known fact", f"one of: {', '.join(FACTS)}")
    expected, meaning = FACTS[name]
    if not _is_value_of(expected, fact.value):
        raise _refused(profile, name, f"{fact.value!r} is not a {expected.__name__}", meaning)
    if not isinstance(fact.source, str) or not fact.source:
        raise _refused(profile, name, "the fact has no source", "say where it was measured or which document states it")


def _refused(profile: str, fact: str, problem: str, hint: str) -> InputError:
    return InputError(problem, hint=hint, where=f"{profile}.facts.{fact}")


def _is_value_of(kind: type, value: object) -> bool:
    """Exact types all the way down: what is in a profile reaches compile keys, in which ``1`` and ``True`` differ."""
    if kind is dict:
        return isinstance(value, Mapping) and all(
            type(size) is str and type(count) is int for size, count in value.items()
        )
    if kind is tuple:
        return type(value) is tuple and all(type(name) is str for name in value)
    return type(value) is kind


def _read_value(value: Any) -> FactValue:
    return tuple(value) if isinstance(value, list) else value


def _read_fact(value: Any) -> Fact:
    return Fact(**json_values.members(value, _FACT))


_FACT = {"value": _read_value, "source": json_values.text}
_PROFILE = {"name": json_values.text, "arch": json_values.text, "facts": json_values.values(_read_fact)}


def _plain(value: FactValue) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
