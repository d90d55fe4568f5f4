"""Says which key is missing and which ones are near, so that a reader sees the field that is off.

Compares JSON forms, as the lockfile has them, and only within one kernel. Knows no device and no library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernelforge.errors import KernelMissing
from kernelforge.lockfile import LockedEntry

_NEAREST = 3


def kernel_missing(asked: Sequence[tuple[str, Mapping[str, Any]]], entries: Iterable[LockedEntry]) -> KernelMissing:
    """The error for (kernel, compile key as JSON) pairs that no entry has; ``entries`` are those of the profile."""
    known = tuple(entries)
    lines = [line for kernel, key in asked for line in _describe(kernel, key, known)]
    what = "the lockfile lacks a kernel" if len(asked) == 1 else f"the lockfile lacks {len(asked)} kernels"
    return KernelMissing(
        "\n  ".join([f"{what}:", *lines]), hint="add the key to the deployment manifest and build again"
    )


def no_such_kernel(kernel: str, known: Iterable[str]) -> KernelMissing:
    """The error for a kernel class that the lockfile does not have at all."""
    return KernelMissing(
        f"the lockfile has no kernel {kernel}; it has {', '.join(sorted(known)) or 'none'}",
        hint="add the kernel to the deployment manifest and build again",
    )


def text_of(key: Mapping[str, Any]) -> str:
    """``head_dim=128, dtype="bfloat16"``."""
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(key.items()))


def _describe(kernel: str, asked: Mapping[str, Any], entries: tuple[LockedEntry, ...]) -> list[str]:
    same_kernel = [entry.compile_key for entry in entries if entry.kernel == kernel]
    nearest = sorted(same_kernel, key=lambda key: _distance(asked, key))[:_NEAREST]
    lines = [f"{kernel} with {text_of(asked)}"]
    lines += [f"  near: {_difference(asked, key)}" for key in nearest]
    return lines if nearest else [*lines, "  the lockfile has no key of this kernel for this device"]


def _difference(asked: Mapping[str, Any], key: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} is {_spelled(key, name)} (asked for {_spelled(asked, name)})" for name in _differing(asked, key)
    )


def _differing(asked: Mapping[str, Any], key: Mapping[str, Any]) -> list[str]:
    # As text, because to Python true, 1 and 1.0 are equal.
    return [name for name in sorted({*asked, *key}) if _spelled(asked, name) != _spelled(key, name)]


def _spelled(key: Mapping[str, Any], name: str) -> str:
    return json.dumps(key[name], sort_keys=True) if name in key else "absent"


def _distance(asked: Mapping[str, Any], key: Mapping[str, Any]) -> tuple[int, float, str]:
    """Fewest differing fields first, then the closest numbers, then an order that never changes."""
    differing = _differing(asked, key)
    numbers = [(asked.get(name), key.get(name)) for name in differing]
    apart = sum(abs(a - b) for a, b in numbers if isinstance(a, int | float) and isinstance(b, int | float))
    return len(differing), apart, json.dumps(dict(key), sort_keys=True)
