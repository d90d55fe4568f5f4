"""Where a release comes from, in SLSA's words: what was asked for, what it was made of, who made it.

Told, not proven: it is what whoever has the key knew when signing, for audits and for a look at a release long after.
Knows no keys and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kernelforge import json_values
from kernelforge.lockfile import Lockfile

BUILD_TYPE = "urn:kernelforge:build:1"
LOCAL_BUILDER = "urn:kernelforge:builder:local"

_PYPI = "pkg:pypi/"
# A toolchain's note of its own flavour stands among the versions of its distributions.
_FLAVOUR = "flavour"


@dataclass(frozen=True)
class SourceState:
    """The commit that was checked out; ``is_dirty``: with changes that are in none."""

    commit: str
    is_dirty: bool


@dataclass(frozen=True)
class Provenance:
    """``toolchains``: CUDA flavour -> distribution -> version. ``source`` is None where nobody knows it.

    ``builder`` is a URI that names who ran the build, ``version`` that of kernelforge there.
    """

    deployment: str
    domain: str
    toolchains: Mapping[str, Mapping[str, str]]
    source: SourceState | None
    builder: str
    version: str

    @classmethod
    def of(cls, lock: Lockfile, *, domain: str, source: SourceState | None, builder: str, version: str) -> Provenance:
        """That of a lockfile, which knows its toolchains itself."""
        toolchains = {
            cuda: {name: found for name, found in versions.items() if name != _FLAVOUR}
            for cuda, versions in lock.toolchains.items()
        }
        return cls(lock.name, domain, toolchains, source, builder, version)

    def definition_json(self) -> dict[str, Any]:
        """SLSA's ``buildDefinition``."""
        return {
            "buildType": BUILD_TYPE,
            "externalParameters": {"deployment": self.deployment, "domain": self.domain},
            "resolvedDependencies": [*self._distributions(), *self._sources()],
        }

    def builder_json(self) -> dict[str, Any]:
        """SLSA's ``runDetails.builder``."""
        return {"id": self.builder, "version": {"kernelforge": self.version}}

    @classmethod
    def from_json(cls, definition: Mapping[str, Any], builder: Mapping[str, Any]) -> Provenance:
        """From what ``DEFINITION`` and ``BUILDER`` have read."""
        asked, source = definition["externalParameters"], None
        toolchains: dict[str, dict[str, str]] = {}
        for dependency in definition["resolvedDependencies"]:
            if isinstance(dependency, SourceState):
                source = dependency
            else:
                cuda, name, version = dependency
                toolchains.setdefault(cuda, {})[name] = version
        version = builder["version"]["kernelforge"]
        return cls(asked["deployment"], asked["domain"], toolchains, source, builder["id"], version)

    def _distributions(self) -> list[dict[str, Any]]:
        return [
            {"uri": f"{_PYPI}{name}@{version}", "annotations": {"cuda": cuda}}
            for cuda, versions in sorted(self.toolchains.items())
            for name, version in sorted(versions.items())
        ]

    def _sources(self) -> list[dict[str, Any]]:
        if self.source is None:
            return []
        annotations = {"dirty": self.source.is_dirty}
        return [{"name": "source", "digest": {"gitCommit": self.source.commit}, "annotations": annotations}]


def exactly(expected: str) -> Callable[[Any], str]:
    """Reader of one text."""

    def read(value: Any) -> str:
        if value != expected:
            raise ValueError(f"{str(value)[:80]!r} instead of {expected!r}")
        return expected

    return read


def of_members(**readers: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """Reader of an object with exactly these members."""
    return lambda value: json_values.members(value, readers)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{str(value)[:80]!r} is neither true nor false")
    return value


def _dependency(value: Any) -> SourceState | tuple[str, str, str]:
    if "digest" in json_values.mapping(value):
        found = _SOURCE(value)
        return SourceState(found["digest"]["gitCommit"], found["annotations"]["dirty"])
    found = _DISTRIBUTION(value)
    name, separator, version = found["uri"].removeprefix(_PYPI).partition("@")
    if not separator or not found["uri"].startswith(_PYPI):
        raise ValueError(f"{found['uri'][:80]!r} names no distribution")
    return found["annotations"]["cuda"], name, version


_SOURCE = of_members(
    name=exactly("source"), digest=of_members(gitCommit=json_values.text), annotations=of_members(dirty=_flag)
)
_DISTRIBUTION = of_members(uri=json_values.text, annotations=of_members(cuda=json_values.text))

BUILDER = of_members(id=json_values.text, version=of_members(kernelforge=json_values.text))
DEFINITION = of_members(
    buildType=exactly(BUILD_TYPE),
    externalParameters=of_members(deployment=json_values.text, domain=json_values.text),
    resolvedDependencies=json_values.items(_dependency),
)
