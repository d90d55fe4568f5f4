"""What the compiler made of every wanted key, for Hopper and for Blackwell, with no GPU: read, and run on the CPU."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kernelforge.builder.cubin import read_cubin
from kernelforge.kernels.qk_norm import QkNorm
from tests.kernels.built_keys import DEVICES, BuiltKey, wanted_keys
from tests.kernels.emulated_memory import Array, Memory
from tests.kernels.ptx_emulator import run
from tests.kernels.ptx_program import Program
from tests.kernels.recorded_launch import FakeTensor, RecordedPack
from tests.kernels.register_bits import pack as rounded
from tests.kernels.register_bits import unpack

pytestmark = pytest.mark.slow

_WANTED = [key for device in DEVICES for key in wanted_keys(device, Path())]
_QK_NORMS = [i for i, wanted in enumerate(_WANTED) if isinstance(wanted.kernel, QkNorm)]
_RMS_NORMS = [i for i, wanted in enumerate(_WANTED) if not isinstance(wanted.kernel, QkNorm)]
_FORMATS = {"bfloat16": "bf16", "float16": "f16"}
# Half a unit in the last place of the result (8 and 11 bits of precision), and a little for float32 on the way.
_RELATIVE_ERROR = {"bfloat16": 2**-8 * 1.001, "float16": 2**-11 * 1.01}
_POISON = 0xFFFF  # NaN in both formats
_REGISTERS_PER_SM = 65536


def _name(i: int) -> str:
    fields = vars(_WANTED[i].key)
    return f"{_WANTED[i].device.arch}-" + "-".join(str(value) for value in fields.values())


@pytest.mark.parametrize("i", range(len(_WANTED)), ids=_name)
def test_code_is_for_its_arch_keeps_all_in_registers_and_moves_whole_vectors(
    built_keys: list[BuiltKey], i: int
) -> None:
    """A spill, a stack frame, a narrow access or a block too big for its registers would only show as lost speed."""
    built = built_keys[i]
    facts = read_cubin(built.read("cubin"))
    ptx = built.read("ptx").decode()
    threads = int(re.findall(r"\.reqntid (\d+)", ptx)[0])
    assert facts.arch == built.device.arch
    assert facts.spill_bytes == 0
    assert ".local" not in ptx
    # The hardware hands out registers in eights.
    assert -(-facts.registers // 8) * 8 * threads <= _REGISTERS_PER_SM
    widths = {int(count) * int(bits) // 8 for count, bits in re.findall(r"(?:ld|st)\.global\.v(\d)\.b(\d+)", ptx)}
    assert widths == {built.key.vector_bytes}
    assert len(re.findall(r"(?:ld|st)\.global", ptx)) == len(re.findall(r"(?:ld|st)\.global\.v", ptx))


@pytest.mark.parametrize("arch", [device.arch for device in DEVICES])
def test_blackwell_moves_32_bytes_at_a_time(built_keys: list[BuiltKey], arch: str) -> None:
    """Falling back to 16 bytes must be a decision, not an accident of alignment."""
    qk_norms = [built for built in built_keys if built.device.arch == arch and isinstance(built.kernel, QkNorm)]
    assert {built.key.vector_bytes for built in qk_norms} == {32 if arch == "sm_100a" else 16}


@pytest.mark.parametrize(("tokens", "q_heads", "kv_heads"), [(1, 32, 8), (1, 1, 1), (5, 3, 2), (33, 16, 4)])
@pytest.mark.parametrize("i", _QK_NORMS, ids=_name)
def test_qk_norm_writes_each_element_of_q_and_k_once_and_nothing_else(
    built_keys: list[BuiltKey], pack: RecordedPack, i: int, tokens: int, q_heads: int, kv_heads: int
) -> None:
    """Every key must be right for any count: q, k and v are parts of one buffer, and v must stay as it is."""
    built, key, width = built_keys[i], built_keys[i].key, built_keys[i].key.head_dim
    heads = q_heads + 2 * kv_heads
    qkv = _random(key.dtype, (tokens, heads, width))
    weights = _random(key.dtype, (2, width))
    memory = Memory()
    start, weight_start = memory.place("qkv", qkv), memory.place("weights", weights)
    stride = (heads * width, width, 1)
    q = FakeTensor(start, key.dtype, (tokens, q_heads, width), stride)
    k = FakeTensor(start + 2 * q_heads * width, key.dtype, (tokens, kv_heads, width), stride)
    factors = [FakeTensor(weight_start + 2 * width * j, key.dtype, (width,), (1,)) for j in range(2)]

    _launch(built, pack, memory, [q, k, *factors])

    normalized = q_heads + kv_heads
    part_of = np.repeat([0, 1], [q_heads, kv_heads])
    numbers, offsets = _numbers(qkv, key.dtype), _numbers(weights, key.dtype) + key.weight_offset
    expected = _rms_norm(numbers[:, :normalized], offsets[part_of], key.eps)
    result = memory.content("qkv", np.uint16).reshape(qkv.shape)
    _assert_close(result[:, :normalized], expected, key.dtype)
    assert (result[:, normalized:] == qkv[:, normalized:]).all()
    stores = memory.store_counts("qkv").reshape(tokens, heads, -1)
    assert (stores[:, :normalized] == 1).all()
    assert (stores[:, normalized:] == 0).all()
    assert not memory.store_counts("weights").any()


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize("i", _RMS_NORMS, ids=_name)
def test_rms_norm_writes_each_element_of_its_rows_once_and_nothing_else(
    built_keys: list[BuiltKey], pack: RecordedPack, i: int, tokens: int
) -> None:
    """Rows are slices of wider ones; what lies between them, and x itself, must stay as it is."""
    built, key, hidden = built_keys[i], built_keys[i].key, built_keys[i].key.hidden
    width = hidden + 64
    x, residual = _random(key.dtype, (2, tokens, width))
    weight = _random(key.dtype, (hidden,))
    memory = Memory()
    starts = [memory.place(name, rows) for name, rows in (("x", x), ("residual", residual))]
    rows = [FakeTensor(start, key.dtype, (tokens, hidden), (width, 1)) for start in starts]
    factors = FakeTensor(memory.place("weight", weight), key.dtype, (hidden,), (1,))
    poisoned = np.full((tokens, hidden), _POISON, np.uint16)
    out = FakeTensor(memory.place("out", poisoned), key.dtype, (tokens, hidden), (hidden, 1))

    _launch(built, pack, memory, [rows[0], rows[1] if key.has_residual else None, factors, out])

    kept = x[:, :hidden]
    if key.has_residual:
        kept = rounded(_numbers(kept, key.dtype) + _numbers(residual[:, :hidden], key.dtype), _FORMATS[key.dtype])
        written = memory.content("residual", np.uint16).reshape(tokens, width)
        assert (written[:, :hidden] == kept).all()
        assert (written[:, hidden:] == residual[:, hidden:]).all()
    expected = _rms_norm(_numbers(kept, key.dtype), _numbers(weight, key.dtype) + key.weight_offset, key.eps)
    _assert_close(memory.content("out", np.uint16).reshape(tokens, hidden), expected, key.dtype)
    stores = memory.store_counts("residual").reshape(tokens, width, 2)
    assert (stores[:, :hidden] == int(key.has_residual)).all()
    assert (memory.store_counts("out") == 1).all()
    assert not memory.store_counts("x").any()
    assert not memory.store_counts("weight").any()


@pytest.mark.parametrize("i", [_QK_NORMS[0], _QK_NORMS[-1]], ids=_name)
@pytest.mark.parametrize(
    "wrong",
    ["pointer", "token stride", "head stride", "dtype", "head_dim", "tokens"],
)
def test_qk_norm_refuses_what_it_was_not_compiled_for_before_the_launch(
    built_keys: list[BuiltKey], pack: RecordedPack, i: int, wrong: str
) -> None:
    """A wrong stride or alignment that reaches the card is a wrong result or an error that ends the process."""
    built, key, width = built_keys[i], built_keys[i].key, built_keys[i].key.head_dim
    other = "float16" if key.dtype == "bfloat16" else "bfloat16"
    q = FakeTensor(
        (1 << 36) + (key.vector_bytes // 2 if wrong == "pointer" else 0),
        other if wrong == "dtype" else key.dtype,
        (3, 4, width // 2 if wrong == "head_dim" else width),
        (8 * width + (4 if wrong == "token stride" else 0), 2 * width if wrong == "head stride" else width, 1),
    )
    k = FakeTensor(1 << 37, key.dtype, (2 if wrong == "tokens" else 3, 2, width), (8 * width, width, 1))
    weight = FakeTensor(1 << 38, key.dtype, (width,), (1,))
    sizes = Program.parse(built.read("ptx").decode()).parameter_bytes
    assert pack.call(built.symbol, [q, k, weight, weight], sizes) is None


def _launch(built: BuiltKey, pack: RecordedPack, memory: Memory, arguments: list[FakeTensor | None]) -> None:
    """What the host code would launch, run on the CPU."""
    program = Program.parse(built.read("ptx").decode())
    launch = pack.call(built.symbol, arguments, program.parameter_bytes)
    assert launch is not None
    run(program, memory, launch.parameters, blocks=launch.blocks, threads=launch.threads)


def _random(dtype: str, shape: tuple[int, ...]) -> Array:
    """16-bit elements; rows differ in magnitude, so that a scale taken from another row shows."""
    generator = np.random.default_rng(sum(shape))
    numbers = generator.standard_normal(shape) * np.exp2(generator.uniform(-3, 3, (*shape[:-1], 1)))
    return rounded(numbers, _FORMATS[dtype])


def _numbers(bits: Array, dtype: str) -> Array:
    return unpack(bits, _FORMATS[dtype]).astype(np.float64)


def _rms_norm(x: Array, factors: Array, eps: float) -> Array:
    result: Array = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * factors
    return result


def _assert_close(bits: Array, expected: Array, dtype: str) -> None:
    smallest_normal = 2.0**-14
    error = np.abs(_numbers(bits, dtype) - expected) / np.maximum(np.abs(expected), smallest_normal)
    assert error.max() <= _RELATIVE_ERROR[dtype]
