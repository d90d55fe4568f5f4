"""Device code of `kernel_family`."""

from __future__ import annotations

from typing import Any

from cutlass import cute


class CopyDevice:
    def __init__(self, width: int) -> None:
        self.width = width

    @cute.jit
    def __call__(self, source: cute.Tensor, target: cute.Tensor, stream: Any) -> None:
        self.copy(source, target).launch(grid=(source.shape[0], 1, 1), block=(32, 1, 1), stream=stream)

    @cute.kernel
    def copy(self, source: cute.Tensor, target: cute.Tensor) -> None:
        lane = cute.arch.thread_idx()[0]
        row = cute.arch.block_idx()[0]
        for column in range(lane, self.width, 32):
            target[row, column] = source[row, column]


class BrokenDevice:
    @cute.jit
    def __call__(self, source: cute.Tensor, target: cute.Tensor, stream: Any) -> None:
        self.broken(source, target).launch(grid=(1, 1, 1), block=(32, 1, 1), stream=stream)

    @cute.kernel
    def broken(self, source: cute.Tensor, target: cute.Tensor) -> None:
        target[0, 0] = source.no_such_attribute
