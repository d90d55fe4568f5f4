"""What travels between a build and its compiling processes: plain JSON, never pickled objects.

A compile key is not sent but found again: the template enumerates the same requests as the planner and looks a key up
by its symbol, so that any value that can be encoded can be a field. Keys that no request leads to (pods reported them)
are sent in their JSON form. Standard library and leaves only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelforge.device import DeviceProfile
from kernelforge.reporting import Failure
from kernelforge.request import KernelRequest
from kernelforge.target import Target

RESULT_FILE = "result.json"
LOG_FILE = "log.txt"
PHASE_FILE = "phase.txt"

# The largest kernels known take 0.7 GB.
LIMIT_MEMORY_BYTES = 4 << 30
OBJECT_FILE = "object.o"
CUBIN_FILE = "image.cubin"


@dataclass(frozen=True)
class Limits:
    """What one compile may take before it has failed: wall time, and memory that is resident."""

    seconds: float
    memory_bytes: int


@dataclass(frozen=True)
class SentKey:
    """A compile key in its JSON form, for a kernel that can rebuild it."""

    kernel: str
    compile_key: Mapping[str, Any]


@dataclass(frozen=True)
class Setup:
    """The first message to a template: for which target, from which sources, within which limits."""

    target: Target
    sys_path: tuple[str, ...]
    requests: tuple[KernelRequest, ...]
    profiles: tuple[DeviceProfile, ...]
    limits: Limits
    sent_keys: tuple[SentKey, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``from_json`` is its inverse."""
        return {
            "target": str(self.target),
            "sys_path": list(self.sys_path),
            "requests": [request.to_json() for request in self.requests],
            "profiles": [profile.to_json() for profile in self.profiles],
            "limits": asdict(self.limits),
            "sent_keys": [{"kernel": key.kernel, "compile_key": dict(key.compile_key)} for key in self.sent_keys],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Setup:
        """Inverse of ``to_json``."""
        return cls(
            target=Target.parse(data["target"]),
            sys_path=tuple(data["sys_path"]),
            requests=tuple(KernelRequest.from_json(request) for request in data["requests"]),
            profiles=tuple(DeviceProfile.from_json(profile) for profile in data["profiles"]),
            limits=Limits(**data["limits"]),
            sent_keys=tuple(SentKey(**key) for key in data["sent_keys"]),
        )


@dataclass(frozen=True)
class CompileJob:
    """One key to compile. ``symbol`` finds it among the enumerated keys and names the callable in the object.

    ``known_ir``: digest of the traced IR for which there is an object already, empty if there is none.
    """

    number: int
    kernel: str
    symbol: str
    target: Target
    known_ir: str = ""


@dataclass(frozen=True)
class CompileFacts:
    """Build facts of one object. Seconds are CPU seconds of its process; sizes are bytes.

    ``ir_digest`` is that of the traced IR, before the compiler's passes.
    """

    ptxas: str
    registers: int
    spill_bytes: int
    static_shared_memory_bytes: int
    code_bytes: int
    ptx_digest: str
    ir_digest: str
    undefined: tuple[str, ...]
    seconds: float = 0.0
    peak_memory_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``from_json`` is its inverse."""
        return {**asdict(self), "undefined": list(self.undefined)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CompileFacts:
        """Inverse of ``to_json``."""
        return cls(**{**data, "undefined": tuple(data["undefined"])})


@dataclass(frozen=True)
class Finished:
    """A job's end: ``facts`` and the files in ``folder``, or ``is_known_ir`` and nothing else, or a ``failure``."""

    job: CompileJob
    folder: Path
    facts: CompileFacts | None
    failure: Failure | None
    is_known_ir: bool = False
