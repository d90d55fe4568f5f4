"""``QkNorm`` as planner and pod see it: keys, launch, reference. Its compiled code is in ``test_device_code``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelforge.contract import IntRange
from kernelforge.device import DeviceProfile, Fact
from kernelforge.encoding import encode
from kernelforge.errors import OutOfBounds
from kernelforge.kernels.qk_norm import QkNorm
from tests.kernels.built_keys import B200, H200
from tests.kernels.recorded_call import RecordingKernels

QWEN3_8B: dict[str, Any] = {
    "q_heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "dtype": "bfloat16",
    "eps": 1e-6,
    "weight_offset": 0.0,
}


def _first_tokens(device: DeviceProfile) -> list[tuple[int, int, int]]:
    """``(first token count, tokens_per_group, warps_per_block)`` of each stretch of equal keys."""
    kernel = QkNorm(device=device)
    stretches: list[tuple[int, int, int]] = []
    for tokens in range(1, 8193):
        key = kernel.dispatch(tokens=tokens, **QWEN3_8B)
        if not stretches or stretches[-1][1:] != (key.tokens_per_group, key.warps_per_block):
            stretches.append((tokens, key.tokens_per_group, key.warps_per_block))
    return stretches


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (H200, [(1, 1, 1), (7, 1, 2), (14, 1, 4), (423, 2, 8), (845, 4, 8)]),
        (B200, [(1, 1, 1), (15, 1, 2), (30, 1, 4), (947, 2, 8)]),
    ],
)
def test_decode_spreads_over_the_sms_and_prefill_keeps_loads_in_flight(
    device: DeviceProfile, expected: list[tuple[int, int, int]]
) -> None:
    """One shape for all token counts leaves SMs idle in decode or bandwidth unused in prefill; dozens cost compiles."""
    assert _first_tokens(device) == expected


def test_keys_do_not_depend_on_head_counts() -> None:
    """Keys per tensor parallel size would multiply the objects for nothing."""
    kernel = QkNorm(device=H200)
    shared = {name: value for name, value in QWEN3_8B.items() if name not in ("q_heads", "kv_heads")}
    keys = [
        kernel.expand(kernel.dispatch)(tokens=IntRange(1, 8193, 3), q_heads=32 // size, kv_heads=8 // size, **shared)
        for size in (1, 2, 4, 8)
    ]
    assert all(
        {encode(key, where="key") for key in more} <= {encode(key, where="key") for key in keys[0]} for more in keys
    )


def test_products_with_equal_facts_share_keys() -> None:
    """The SM count decides the bucket and is no constant of the code: H100 and H200 must share objects."""
    h100 = DeviceProfile("h100-sxm", "sm_90a", {"num_sms": Fact(132, "test")})
    for tokens in (1, 100, 8192):
        keys = [QkNorm(device=device).dispatch(tokens=tokens, **QWEN3_8B) for device in (h100, H200)]
        assert keys[0] == keys[1]


def test_numbers_of_another_type_make_the_same_key() -> None:
    """``weight_offset: 0`` in a manifest and ``0.0`` at the call must meet."""
    kernel = QkNorm(device=H200)
    keys = [kernel.dispatch(tokens=1, **{**QWEN3_8B, "weight_offset": offset}) for offset in (0, 0.0)]
    assert encode(keys[0], where="key") == encode(keys[1], where="key")


@pytest.mark.parametrize(
    "wrong",
    [
        {"head_dim": 96},
        {"dtype": "float32"},
        {"tokens": 0},
        {"weight_offset": 0.5},
        {"q_heads": 0},
        {"tokens": 1 << 21},
    ],
)
def test_what_it_cannot_do_is_refused_by_name(wrong: dict[str, Any]) -> None:
    """A key for what the code does not support would be a wrong result, not an error."""
    with pytest.raises(OutOfBounds, match=next(iter(wrong))):
        QkNorm(device=H200).dispatch(**{"tokens": 1, **QWEN3_8B, **wrong})


def test_bytes_are_one_read_and_one_write_of_each_element() -> None:
    """Bandwidth is judged by this number."""
    key = QkNorm(device=H200).dispatch(tokens=3, **QWEN3_8B)
    cost = QkNorm(device=H200).cost(key, tokens=3, q_heads=32, kv_heads=8)
    assert cost == {"bytes": 2 * (2 * 3 * 40 * 128 + 2 * 128), "flops": 4 * 3 * 40 * 128}


@pytest.mark.parametrize("weight_offset", [0.0, 1.0])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_reference_is_the_formula(head_dim: int, weight_offset: float) -> None:
    """The card's results are judged by the reference; an error in it would pass as correct."""
    torch = pytest.importorskip("torch")
    kernel = QkNorm(device=H200)
    key = kernel.dispatch(tokens=5, **{**QWEN3_8B, "head_dim": head_dim, "weight_offset": weight_offset})
    given = kernel.inputs(key, torch.Generator().manual_seed(7), tokens=5, device="cpu", q_heads=4, kv_heads=2)
    for result, heads, weight in zip(kernel.reference(**given), "qk", ("q_weight", "k_weight"), strict=True):
        x = given[heads].double().numpy()
        factors = given[weight].double().numpy() + weight_offset
        expected = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * factors
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_call_launches_with_the_key_of_its_tensors_and_returns_them() -> None:
    """What dispatch is asked at the call must be what the tensors are."""
    torch = pytest.importorskip("torch")
    kernels = RecordingKernels(H200)
    kernel = QkNorm(kernels)
    key = kernel.dispatch(tokens=9, **QWEN3_8B)
    given = kernel.inputs(key, torch.Generator().manual_seed(1), tokens=9, device="cpu")
    assert not given["q"].is_contiguous()
    assert given["q"].untyped_storage().data_ptr() == given["k"].untyped_storage().data_ptr()
    q, k = kernel(**given)
    assert (q is given["q"], k is given["k"]) == (True, True)
    ((called, arguments),) = kernels.calls
    assert called == key
    assert [id(argument) for argument in arguments] == [id(given[name]) for name in ("q", "k", "q_weight", "k_weight")]
