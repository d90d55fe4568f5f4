"""A device profile as the YAML that ``specs/devices`` holds; written by hand, since a pod has no YAML library."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from kernelforge.device import DeviceProfile, Fact

SCHEMA = "kernelforge.device/1"


def profile_yaml(profile: DeviceProfile) -> str:
    """The document, which ``manifest.devices`` reads back. JSON values are YAML values."""
    return "\n".join(_lines(profile)) + "\n"


def _lines(profile: DeviceProfile) -> Iterator[str]:
    yield f"schema: {SCHEMA}"
    yield f"name: {profile.name}"
    yield f"arch: {profile.arch}"
    yield "facts:"
    for name, fact in profile.facts.items():
        yield f"  {name}:"
        yield f"    value: {_value(fact)}"
        yield f"    source: {json.dumps(fact.source, ensure_ascii=False)}"


def _value(fact: Fact) -> str:
    if isinstance(fact.value, Mapping):
        # A driver answers 0 for clusters that the card cannot run; a profile leaves these out.
        return json.dumps({size: count for size, count in fact.value.items() if count})
    return json.dumps(fact.value, ensure_ascii=False)
