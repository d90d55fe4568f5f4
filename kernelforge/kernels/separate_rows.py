"""The one thing about a written tensor that a compiled object cannot refuse: rows that lie on top of each other.

A row stride of 0 (a broadcast tensor) or one shorter than a row is a legal stride to the object, and right for what is
only read. Written, the rows race, and what is left in memory is a wrong result without an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelforge.errors import CallRefused

if TYPE_CHECKING:
    import torch


def require_separate_rows(name: str, tensor: torch.Tensor, row_elements: int) -> None:
    """Raise ``CallRefused`` if rows of ``tensor`` [rows, ...], ``row_elements`` elements each, overlap."""
    # Asked first, since it takes 0.06 us and a stride 0.17: memory without gaps has room for every row.
    if not tensor.is_contiguous() and tensor.stride(0) < row_elements and tensor.shape[0] > 1:
        raise CallRefused(
            f"the rows of {name} overlap: they are {row_elements} elements long and {tensor.stride(0)} apart; "
            "nothing was launched",
            hint=f"{name} is written, so each row needs memory of its own: a broadcast tensor must be copied first",
            where=name,
        )
