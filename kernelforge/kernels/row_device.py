"""What the norms do to one row of 16-bit elements: float32 arithmetic between one load and one rounding.

Device code: imported only where kernels are traced. It knows nothing of keys, launches or which thread owns what.
"""

from __future__ import annotations

from typing import Any

import cutlass
from cutlass import cute

ELEMENT_TYPES = {"bfloat16": cutlass.BFloat16, "float16": cutlass.Float16}


def square_sum(fragment: cute.Tensor) -> Any:
    """Float32 sum of squares of a register fragment."""
    values = fragment.load().to(cutlass.Float32)
    return (values * values).reduce(cute.ReductionOp.ADD, 0.0, 0)


def inverse_rms(total: Any, elements: int, eps: float) -> Any:
    """``1 / sqrt(total / elements + eps)``; the hardware's approximation is within 2 units in the last place."""
    return cute.math.rsqrt(total * (1.0 / elements) + eps, approx=True)


def scale_row(fragment: cute.Tensor, scale: Any, weight: cute.Tensor, weight_offset: float) -> None:
    """Replace the fragment by ``fragment * scale * (weight_offset + weight)``: float32, rounded once at the end."""
    factors = weight.load().to(cutlass.Float32)
    if weight_offset != 0.0:
        factors = factors + weight_offset
    values = fragment.load().to(cutlass.Float32) * scale * factors
    fragment.store(values.to(fragment.element_type))
