"""What registers hold: raw bits, in numpy arrays with one entry per thread, and the numbers that they mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels.emulated_memory import Array

FLOAT = {"f16": np.float16, "f32": np.float32}


def integer(kind: str) -> str:
    """``s32`` -> numpy's ``i4``, ``u64`` -> ``u8``."""
    return f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}"


def register_type(register: str) -> Any:
    """The compiler names registers by their width."""
    return {"%rs": np.uint16, "%r": np.uint32, "%rd": np.uint64}[register.rstrip("0123456789")]


def joined(low: Array, high: Array) -> Array:
    """Inverse of ``halves``."""
    wide = np.dtype(f"u{2 * low.dtype.itemsize}")
    result: Array = low.astype(wide) | high.astype(wide) << wide.type(8 * low.dtype.itemsize)
    return result


def halves(bits: Array) -> tuple[Array, Array]:
    """Lower and upper half."""
    pairs = np.ascontiguousarray(bits).view(np.dtype(f"u{bits.dtype.itemsize // 2}")).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def unpack(bits: Array, kind: str) -> Array:
    """16-bit elements (``bf16`` or ``f16``) as numbers."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32) if kind == "bf16" else bits.view(FLOAT[kind])


def pack(value: Array, kind: str) -> Array:
    """Bits of ``value`` rounded to nearest even."""
    if kind != "bf16":
        return value.astype(FLOAT[kind]).view(np.dtype(f"u{np.dtype(FLOAT[kind]).itemsize}"))
    bits = value.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
