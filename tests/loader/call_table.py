"""Calls of the built-in kernels, right ones and wrong ones, and what must become of each.

The table is read twice: by the test that names and judges, and by the process that has the pack open and calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kernelforge.kernels.qk_norm import QkNorm
from kernelforge.kernels.rms_norm import RmsNorm
from kernelforge.loader.kernel_set import KernelSet
from tests.loader.cuda_tensor import CPU, CUDA, CUDA_MANAGED, CudaTensor

TOKENS, Q_HEADS, KV_HEADS, HEAD_DIM, HIDDEN = 4, 4, 2, 128, 1024
_BUFFER = (Q_HEADS + 2 * KV_HEADS) * HEAD_DIM  # q, k and v of one token lie in one buffer

q = CudaTensor((TOKENS, Q_HEADS, HEAD_DIM), (_BUFFER, HEAD_DIM, 1))
k = CudaTensor((TOKENS, KV_HEADS, HEAD_DIM), (_BUFFER, HEAD_DIM, 1), address=(1 << 36) + 2 * Q_HEADS * HEAD_DIM)
factors = CudaTensor((HEAD_DIM,), (1,), address=1 << 38)
x = CudaTensor((TOKENS, HIDDEN), (HIDDEN, 1))
residual, out = replace(x, address=1 << 39), replace(x, address=1 << 40)
weight = CudaTensor((HIDDEN,), (1,), address=1 << 38)

_OTHER_GPU, _HOST = (CUDA, 1), (CPU, 0)


@dataclass(frozen=True)
class Call:
    """``run`` calls a kernel; ``error`` is the type that must be raised, '' where one launch must happen."""

    run: Callable[[KernelSet], Any]
    error: str = ""
    words: str = ""


def held_qk_norm(*arguments: Any) -> Callable[[KernelSet], Any]:
    """Through the callable that an engine holds."""
    return lambda kernels: _held_qk_norm(kernels)(*arguments)


def held_rms_norm(has_residual: bool, *arguments: Any) -> Callable[[KernelSet], Any]:
    """Through the callable that an engine holds: x, residual, weight, out."""

    def run(kernels: KernelSet) -> Any:
        axes = {"tokens": TOKENS, "hidden": HIDDEN, "dtype": "bfloat16", "eps": 1e-6, "weight_offset": 0.0}
        return kernels[RmsNorm(kernels).dispatch(has_residual=has_residual, **axes)](*arguments)

    return run


def qk_norm(**changes: Any) -> Callable[[KernelSet], Any]:
    """Through the kernel class, with some arguments replaced."""
    arguments = {"q": q, "k": k, "q_weight": factors, "k_weight": factors, **changes}
    return lambda kernels: QkNorm(kernels)(**arguments)


def rms_norm(**changes: Any) -> Callable[[KernelSet], Any]:
    """Through the kernel class, with some arguments replaced."""
    return lambda kernels: RmsNorm(kernels)(**{"x": x, "weight": weight, **changes})


def _held_qk_norm(kernels: KernelSet) -> Any:
    axes = {"tokens": TOKENS, "q_heads": Q_HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM, "dtype": "bfloat16"}
    return kernels[QkNorm(kernels).dispatch(eps=1e-6, weight_offset=0.0, **axes)]


def _qk(words: str, **changes: Any) -> Call:
    """A held QkNorm with a changed q must be refused."""
    return Call(held_qk_norm(replace(q, **changes), k, factors, factors), "CallRefused", words)


def _strided(*strides: int) -> dict[str, Any]:
    return {"strides": strides}


_RIGHT = {
    "held": Call(held_qk_norm(q, k, factors, factors)),
    "class": Call(qk_norm()),
    "one head, whose stride means nothing": Call(
        held_qk_norm(replace(q, shape=(TOKENS, 1, HEAD_DIM), strides=(_BUFFER, 7, 1)), k, factors, factors)
    ),
    "norm": Call(rms_norm()),
    "norm with a residual": Call(rms_norm(residual=residual, out=out)),
    "norm in place": Call(rms_norm(out=x)),
    "norm of one row read by all": Call(rms_norm(x=replace(x, strides=(0, 1)))),
    "a single row of any stride": Call(rms_norm(x=replace(x, shape=(1, HIDDEN)), out=replace(out, shape=(1, HIDDEN)))),
}

_WRONG_TENSORS = {
    "dtype": _qk("expected dtype=bfloat16", element="float16"),
    "wider dtype": _qk("expected dtype=bfloat16", element="float32"),
    "rank too small": _qk("expected ndim=3", shape=(TOKENS, 512), strides=(_BUFFER, 1)),
    "rank too large": _qk("expected ndim=3", shape=(1, *q.shape), strides=(0, *q.strides)),
    "static dimension": _qk("expected to be 128", shape=(TOKENS, Q_HEADS, 64)),
    "tokens of q and k differ": _qk("expected to match", shape=(TOKENS - 1, Q_HEADS, HEAD_DIM)),
    "head stride": _qk("strides[1]", **_strided(_BUFFER, 2 * HEAD_DIM, 1)),
    "head stride 0": _qk("strides[1]", **_strided(_BUFFER, 0, 1)),
    "token stride that breaks alignment": _qk("divisible by", **_strided(_BUFFER + 4, HEAD_DIM, 1)),
    "elements apart": _qk("strides[2]", **_strided(_BUFFER, HEAD_DIM, 2)),
    "elements on top of each other": _qk("strides[2]", **_strided(_BUFFER, HEAD_DIM, 0)),
    "pointer": _qk("alignment", address=(1 << 36) + 8),
    "CPU": _qk("device_type=cuda", device=_HOST),
    "managed memory": _qk("device_type=cuda", device=(CUDA_MANAGED, 0)),
    "q and k on two devices": _qk("device index", device=_OTHER_GPU),
    "dimension beyond int32": Call(
        held_qk_norm(
            replace(q, shape=(1 << 31, *q.shape[1:])), replace(k, shape=(1 << 31, *k.shape[1:])), factors, factors
        ),
        "CallRefused",
        "int32 range",
    ),
    # Its low 32 bits are the right number of heads.
    "dimension that wraps to the right one": _qk("int32 range", shape=(TOKENS, (1 << 32) + Q_HEADS, HEAD_DIM)),
    "weight too short": Call(
        held_qk_norm(q, k, replace(factors, shape=(64,)), factors), "CallRefused", "expected to be 128"
    ),
    "weight broadcast": Call(held_qk_norm(q, k, factors, replace(factors, strides=(0,))), "CallRefused", "strides[0]"),
    "weight on the CPU": Call(
        held_rms_norm(False, x, None, replace(weight, device=_HOST), out), "CallRefused", "device_type=cuda"
    ),
    "weight dtype": Call(
        held_rms_norm(False, x, None, replace(weight, element="float32"), out), "CallRefused", "dtype=bfloat16"
    ),
    "out of other rows": Call(
        held_rms_norm(False, x, None, weight, replace(out, shape=(TOKENS + 1, HIDDEN))), "CallRefused", "match x.shape"
    ),
    "out of other columns": Call(
        held_rms_norm(False, x, None, weight, replace(out, shape=(TOKENS, 512))), "CallRefused", "expected to be 1024"
    ),
}

_WRONG_ARGUMENTS = {
    "None for a tensor": Call(held_qk_norm(None, k, factors, factors), "CallRefused", "expected Tensor"),
    "number for a tensor": Call(held_qk_norm(q, k, 3, factors), "CallRefused", "expected Tensor"),
    "too few": Call(held_qk_norm(q, k, factors), "CallRefused", "Expects 4 parameters"),
    "too many": Call(held_qk_norm(q, k, factors, factors, factors), "CallRefused", "Expects 4 parameters"),
    "residual for a kernel without": Call(held_rms_norm(False, x, residual, weight, out), "CallRefused", "None"),
    "no residual for a kernel with": Call(held_rms_norm(True, x, None, weight, out), "CallRefused", "Tensor"),
}

_WRONG_FOR_THE_CLASS = {
    "class: None": Call(qk_norm(q=None), "CallRefused", "no launch can be described"),
    "class: rank": Call(qk_norm(q=x), "CallRefused", "no launch can be described"),
    "class: rank of a row": Call(rms_norm(x=weight), "CallRefused", "no launch can be described"),
    "class: unknown argument": Call(qk_norm(scale=1.0), "CallRefused", "unexpected keyword argument 'scale'"),
    "class: dtype that no key has": Call(qk_norm(q=replace(q, element="float32")), "OutOfBounds", "float32"),
    "class: head dimension that no key has": Call(
        qk_norm(q=replace(q, shape=(TOKENS, Q_HEADS, 96))), "OutOfBounds", "head_dim"
    ),
    "class: no tokens": Call(rms_norm(x=replace(x, shape=(0, HIDDEN))), "OutOfBounds", "tokens"),
    "class: key that was not built": Call(
        qk_norm(q=replace(q, element="float16")), "KernelMissing", 'dtype is "bfloat16" (asked for "float16")'
    ),
    "class: weight of another dtype": Call(
        qk_norm(k_weight=replace(factors, element="float16")), "CallRefused", "dtype=bfloat16"
    ),
    # A5: a legal stride to the object, whose rows would race in what they write.
    "class: q broadcast over tokens": Call(qk_norm(q=replace(q, strides=(0, HEAD_DIM, 1))), "CallRefused", "overlap"),
    "class: k broadcast over tokens": Call(qk_norm(k=replace(k, strides=(0, HEAD_DIM, 1))), "CallRefused", "overlap"),
    "class: tokens that overlap by half": Call(
        qk_norm(q=replace(q, strides=(Q_HEADS * HEAD_DIM // 2, HEAD_DIM, 1))), "CallRefused", "overlap"
    ),
    "class: out broadcast": Call(rms_norm(out=replace(out, strides=(0, 1))), "CallRefused", "overlap"),
    "class: residual broadcast": Call(rms_norm(residual=replace(residual, strides=(0, 1))), "CallRefused", "overlap"),
}

CALLS: dict[str, Call] = {**_RIGHT, **_WRONG_TENSORS, **_WRONG_ARGUMENTS, **_WRONG_FOR_THE_CLASS}
