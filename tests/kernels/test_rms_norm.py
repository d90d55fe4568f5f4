"""``RmsNorm`` as planner and pod see it: keys, launch, reference. Its compiled code is in ``test_device_code``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelforge.device import DeviceProfile
from kernelforge.encoding import encode
from kernelforge.errors import OutOfBounds
from kernelforge.kernels.rms_norm import RmsNorm
from tests.kernels.built_keys import B200, H200
from tests.kernels.recorded_call import RecordingKernels

QWEN3_8B: dict[str, Any] = {
    "hidden": 4096,
    "dtype": "bfloat16",
    "has_residual": False,
    "eps": 1e-6,
    "weight_offset": 0.0,
}


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (H200, [(1, 16, 16, 1), (265, 16, 8, 1), (529, 16, 4, 1)]),
        (B200, [(1, 16, 16, 1), (297, 32, 8, 1), (593, 32, 4, 1)]),
    ],
)
def test_decode_takes_wide_teams_and_prefill_narrow_ones(
    device: DeviceProfile, expected: list[tuple[int, int, int, int]]
) -> None:
    """One shape for all row counts is slow in decode (long threads) or in prefill (few loads in flight)."""
    stretches: list[tuple[int, int, int, int]] = []
    for tokens in range(1, 8193):
        key = RmsNorm(device=device).dispatch(tokens=tokens, **QWEN3_8B)
        shape = (key.vector_bytes, key.warps_per_row, key.rows_per_block)
        if not stretches or stretches[-1][1:] != shape:
            stretches.append((tokens, *shape))
    assert stretches == expected


@pytest.mark.parametrize("device", [H200, B200])
def test_every_row_length_fits_its_team(device: DeviceProfile) -> None:
    """A row must divide into whole vectors, be covered by its team, and the block must be launchable."""
    kernel = RmsNorm(device=device)
    for hidden in range(1024, 16384 + 1, 8):
        for tokens in (1, 200, 1000, 8192):
            key = kernel.dispatch(tokens=tokens, **{**QWEN3_8B, "hidden": hidden})
            assert 2 * hidden % key.vector_bytes == 0
            vectors_per_thread = -(-2 * hidden // (key.vector_bytes * 32 * key.warps_per_row))
            assert vectors_per_thread * key.vector_bytes <= 64
            assert 1 <= key.warps_per_row * key.rows_per_block <= 32


@pytest.mark.parametrize(
    "wrong", [{"hidden": 1020}, {"hidden": 1028}, {"hidden": 16392}, {"dtype": "float32"}, {"tokens": 0}]
)
def test_what_it_cannot_do_is_refused_by_name(wrong: dict[str, Any]) -> None:
    """A row that does not divide into vectors would be cut off silently."""
    with pytest.raises(OutOfBounds, match=next(iter(wrong))):
        RmsNorm(device=H200).dispatch(**{"tokens": 1, **QWEN3_8B, **wrong})


def test_numbers_of_another_type_make_the_same_key() -> None:
    """``weight_offset: 0`` in a manifest and ``0.0`` at the call must meet."""
    kernel = RmsNorm(device=H200)
    keys = [kernel.dispatch(tokens=1, **{**QWEN3_8B, "weight_offset": offset}) for offset in (0, 0.0)]
    assert encode(keys[0], where="key") == encode(keys[1], where="key")


def test_bytes_count_the_residual_in_and_out() -> None:
    """Bandwidth is judged by this number."""
    kernel = RmsNorm(device=H200)
    plain, fused = (kernel.dispatch(tokens=3, **{**QWEN3_8B, "has_residual": has}) for has in (False, True))
    assert kernel.cost(plain, tokens=3) == {"bytes": 2 * (2 * 3 * 4096 + 4096), "flops": 4 * 3 * 4096}
    assert kernel.cost(fused, tokens=3) == {"bytes": 2 * (4 * 3 * 4096 + 4096), "flops": 5 * 3 * 4096}


@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("weight_offset", [0.0, 1.0])
def test_reference_is_the_formula(has_residual: bool, weight_offset: float) -> None:
    """The card's results are judged by the reference; the norm must be that of the rounded sum."""
    torch = pytest.importorskip("torch")
    kernel = RmsNorm(device=H200)
    axes = {**QWEN3_8B, "hidden": 1032, "has_residual": has_residual, "weight_offset": weight_offset}
    key = kernel.dispatch(tokens=5, **axes)
    given = kernel.inputs(key, torch.Generator().manual_seed(7), tokens=5, device="cpu")
    result = kernel.reference(**given)
    x = given["x"].double()
    if has_residual:
        result, residual = result
        x = (x + given["residual"].double()).to(torch.bfloat16).double()
        assert (residual == x).all()
    factors = given["weight"].double() + weight_offset
    expected = x.numpy() / np.sqrt((x.numpy() ** 2).mean(axis=-1, keepdims=True) + 1e-6) * factors.numpy()
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_call_makes_an_output_and_launches_without_a_residual() -> None:
    """A missing output or residual must not change the argument order that the object was compiled for."""
    torch = pytest.importorskip("torch")
    kernels = RecordingKernels(H200)
    x, weight = torch.zeros(3, 4096, dtype=torch.bfloat16), torch.ones(4096, dtype=torch.bfloat16)
    out = RmsNorm(kernels)(x=x, weight=weight)
    ((key, arguments),) = kernels.calls
    assert key == RmsNorm(device=H200).dispatch(tokens=3, **QWEN3_8B)
    assert [id(argument) for argument in arguments] == [id(x), id(None), id(weight), id(out)]
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    assert out.data_ptr() != x.data_ptr()


def test_call_with_a_residual_returns_it_beside_the_given_output() -> None:
    """The engine goes on with both."""
    torch = pytest.importorskip("torch")
    kernels = RecordingKernels(H200)
    kernel = RmsNorm(kernels)
    key = kernel.dispatch(tokens=9, **{**QWEN3_8B, "has_residual": True})
    given = kernel.inputs(key, torch.Generator().manual_seed(1), tokens=9, device="cpu")
    assert given["out"].isnan().all()
    assert not given["x"].is_contiguous()
    out, residual = kernel(**given)
    assert (out is given["out"], residual is given["residual"]) == (True, True)
    ((called, arguments),) = kernels.calls
    assert called == key
    assert [id(argument) for argument in arguments] == [id(given[name]) for name in ("x", "residual", "weight", "out")]
