"""A tensor that says it is on a GPU, for machines without one: tvm-ffi takes it as it takes a framework's tensor.

It has an address, a shape, strides and a dtype, and no memory: nothing that is called with it may read any.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from tests.kernels.recorded_launch import DLTensor

CPU, CUDA, CUDA_MANAGED = 1, 2, 13
_DTYPES = {"bfloat16": (4, 16), "float16": (2, 16), "float32": (2, 32)}  # name -> DLPack code, bits

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class _Managed(ctypes.Structure):
    """DLPack's DLManagedTensor; without a deleter the consumer frees nothing."""

    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_handed_over: list[Any] = []  # what capsules point to must outlive them


@dataclass(frozen=True)
class CudaTensor:
    """Strides are in elements; ``device`` is DLPack's (type, ordinal)."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: str = "bfloat16"
    address: int = 1 << 36
    device: tuple[int, int] = (CUDA, 0)

    @property
    def dtype(self) -> str:
        """As PyTorch spells it."""
        return f"torch.{self.element}"

    def stride(self, dimension: int) -> int:
        """As PyTorch's method."""
        return self.strides[dimension]

    def is_contiguous(self) -> bool:
        """As PyTorch's method: a dimension of one element may have any stride."""
        elements = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != elements and 0 not in self.shape:
                return False
            elements *= size
        return True

    def new_empty(self, shape: tuple[int, ...]) -> CudaTensor:
        """A contiguous tensor elsewhere."""
        return CudaTensor(shape, (shape[1], 1), self.element, self.address + (1 << 32), self.device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **_options: Any) -> Any:
        numbers = ctypes.c_int64 * len(self.shape)
        shape, strides = numbers(*self.shape), numbers(*self.strides)
        code, bits = _DTYPES[self.element]
        tensor = DLTensor(self.address, *self.device, len(self.shape), code, bits, 1, shape, strides, 0)
        managed = _Managed(tensor, None, None)
        _handed_over.append((managed, shape, strides))
        return _new_capsule(ctypes.addressof(managed), b"dltensor", None)
