"""A source of kernels that remembers calls: what a kernel class asks of a ``KernelSet``, with no GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelforge.contract import JitKernel
from kernelforge.device import DeviceProfile


class RecordingKernels:
    """``calls``: the compile key and the arguments of each launch."""

    def __init__(self, device: DeviceProfile) -> None:
        self.device = device
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []

    def bind(self, kernel_class: type[JitKernel[Any]]) -> None:
        """Every class fits."""

    def __getitem__(self, compile_key: Any) -> Callable[..., Any]:
        return lambda *arguments: self.calls.append((compile_key, arguments))
