"""The versions of what turns a kernel into an object, read from package metadata: nothing is imported.

Every installed distribution of the compiler's family counts, also the other CUDA flavour's: a machine's toolchain is
one thing, and installing it from one pinned requirement makes these agree.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelforge.errors import ContractError, ToolchainError
from kernelforge.target import CUDA_FLAVOURS

COMPILER = "nvidia-cutlass-dsl"
CALL_INTERFACE = "apache-tvm-ffi"
_FLAVOUR = "flavour"


@dataclass(frozen=True)
class Toolchain:
    """``cuda`` is the compiler flavour (``cu13``); ``versions`` maps distribution name -> exact version."""

    cuda: str
    versions: Mapping[str, str]

    @property
    def compiler_version(self) -> str:
        """Version of the compiler's main distribution."""
        return self.versions[COMPILER]

    def to_json(self) -> dict[str, str]:
        """``{"flavour": "cu13", "nvidia-cutlass-dsl": "4.8.1", ...}``."""
        return {_FLAVOUR: self.cuda, **dict(sorted(self.versions.items()))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Toolchain:
        """Inverse of ``to_json``."""
        return cls(data[_FLAVOUR], {name: version for name, version in data.items() if name != _FLAVOUR})


def installed_toolchain(cuda: str) -> Toolchain:
    """The toolchain that compiles for ``cuda`` here; ``ToolchainError`` says what to install when a part is absent."""
    versions: dict[str, str] = {}
    _add_family(COMPILER, versions)
    for needed in (COMPILER, f"{COMPILER}-libs-{cuda}"):
        if needed not in versions:
            raise ToolchainError(
                f"{needed} is not installed, and compiling for {cuda} needs it", hint=_install_hint(cuda), where=needed
            )
    _add(CALL_INTERFACE, versions)
    if CALL_INTERFACE not in versions:
        raise ToolchainError(
            f"{CALL_INTERFACE} is not installed, and objects are called through it",
            hint=_install_hint(cuda),
            where=CALL_INTERFACE,
        )
    return Toolchain(cuda, versions)


def check_requires_dsl(kernel: str, required: str, toolchain: Toolchain) -> None:
    """Check a kernel's ``requires_dsl`` (a version range, empty for any) against the compiler that is installed.

    Third-party kernels use names that exist in few versions and fail only when traced; this fails before any compile.
    Raises ``ContractError`` naming the kernel, what it requires and what was found.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    where = f"{kernel}.requires_dsl"
    try:
        allowed = SpecifierSet(required)
    except InvalidSpecifier as error:
        raise ContractError(
            f"{required!r} is not a version range", hint="write it as in '>=4.8,<5'", where=where
        ) from error
    found = toolchain.compiler_version
    if not allowed.contains(found, prereleases=True):
        raise ContractError(
            f"{kernel} requires {COMPILER} {required}, found {found}",
            hint="install a compiler in that range, or port the kernel and widen requires_dsl",
            where=where,
        )


def _add(name: str, versions: dict[str, str]) -> list[str]:
    """Record the version of a distribution if it is installed; return what it requires."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return []
    versions[name] = distribution.version
    return distribution.requires or []


def _add_family(name: str, versions: dict[str, str]) -> None:
    # Walking the requirements takes 3 ms; reading the metadata of everything that is installed takes 25.
    for requirement in _add(name, versions):
        match = re.match(r"[A-Za-z0-9._-]+", requirement)
        required = re.sub(r"[-_.]+", "-", match.group()).lower() if match else ""
        if required.startswith(COMPILER) and required not in versions:
            _add_family(required, versions)


def _install_hint(cuda: str) -> str:
    extra = f"[{cuda}]" if cuda != CUDA_FLAVOURS[0] else ""
    return f"pip install 'kernelforge[build]', or '{COMPILER}{extra}' for this flavour"
