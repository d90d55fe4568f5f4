"""What an object is compiled for: GPU architecture, host and CUDA flavour, in one spelling each.

Knows no product names (``device`` does) and no compiler. The rule for architectures is written here once: exact
lower-case ``sm_<number><suffix>`` out of a closed list; nothing is normalised, because a plain ``sm_90`` silently
means PTX without the instructions that ``sm_90a`` kernels need.
"""

from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass

from kernelforge.errors import TargetError

# Suffix `a` runs on exactly this compute capability, `f` on its family. Each was compiled with no GPU present.
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_120a")
HOSTS = ("x86_64-linux-gnu", "aarch64-linux-gnu")
CUDA_FLAVOURS = ("cu12", "cu13")


@dataclass(frozen=True, order=True, slots=True)
class Target:
    """``Target.parse(str(target)) == target`` always holds; unknown parts raise ``TargetError``."""

    arch: str
    host: str = "x86_64-linux-gnu"
    cuda: str = "cu13"

    def __post_init__(self) -> None:
        check_arch(self.arch)
        _check("host", self.host, HOSTS)
        _check("CUDA flavour", self.cuda, CUDA_FLAVOURS)

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``sm_90a/x86_64-linux-gnu/cu13``."""
        parts = text.split("/")
        if len(parts) != 3:
            raise TargetError(f"{text!r} is not a target", hint="a target reads sm_90a/x86_64-linux-gnu/cu13")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.arch}/{self.host}/{self.cuda}"


def check_arch(arch: object) -> str:
    """Return ``arch`` if it is one of ``ARCHITECTURES``; else raise ``TargetError`` with the nearest one."""
    if isinstance(arch, str) and arch in ARCHITECTURES:
        return arch
    raise TargetError(f"{arch!r} is not a known architecture", hint=_did_you_mean(arch))


@functools.lru_cache
def compute_capability(arch: str) -> tuple[int, int]:
    """``sm_90a`` -> ``(9, 0)``: the last digit is the minor version."""
    number = "".join(filter(str.isdigit, check_arch(arch)))
    return int(number[:-1]), int(number[-1])


def arch_runs_on(arch: str, capability: tuple[int, int]) -> bool:
    """Whether a cubin for ``arch`` runs on a GPU of this compute capability.

    CUDA's rule: a suffix ``a`` means exactly this capability; ``f`` (the family) and no suffix mean the same major and
    at least this minor.
    """
    major, minor = compute_capability(arch)
    if arch.endswith("a"):
        return (major, minor) == capability
    return capability[0] == major and capability[1] >= minor


def _check(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise TargetError(f"{value!r} is not a known {what}", hint=f"one of: {', '.join(known)}")


def _did_you_mean(arch: object) -> str:
    digits = re.sub(r"[^0-9]", "", str(arch))
    same_number = [known for known in ARCHITECTURES if re.sub(r"[^0-9]", "", known) == digits]
    nearest = same_number or difflib.get_close_matches(str(arch), ARCHITECTURES, n=1)
    if nearest:
        return f"did you mean {nearest[0]}?"
    return f"one of: {', '.join(ARCHITECTURES)}"
