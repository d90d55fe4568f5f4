"""How many bytes one load or store instruction of a thread moves. Knows architectures, no kernel."""

from __future__ import annotations

from kernelforge.target import compute_capability

_BLACKWELL = (10, 0)


def widest_vector_bytes(arch: str, row_bytes: int) -> int:
    """16 bytes, or 32 where the architecture has them (PTX: ``.v8.b32`` from sm_100 on) and the row divides by them.

    ``row_bytes`` must divide by 16. Pointers and strides must then divide by the result.
    """
    if compute_capability(arch) >= _BLACKWELL and row_bytes % 32 == 0:
        return 32
    return 16
