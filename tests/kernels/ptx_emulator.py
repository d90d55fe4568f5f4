"""Runs the PTX of a built-in kernel on the CPU: all threads of a grid side by side in numpy arrays, in lock step.

CI has no GPU, so this is where the compiled code of every key, for every architecture, is held against the formula.
It knows the instructions that the kernels use and refuses any other; memory accesses are checked.

What it cannot see: ptxas (PTX to machine code), speed, and races, since lock step is one order of many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels.emulated_memory import Array, Memory
from tests.kernels.ptx_program import Instruction, Program, parts_of
from tests.kernels.register_bits import FLOAT, halves, integer, joined, pack, register_type, unpack

_WARP_LANES = 32
_PARAMETER_SPACE_BYTES = 1 << 12
_BYTES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}
_COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def run(program: Program, memory: Memory, parameters: list[bytes], *, blocks: int, threads: int) -> None:
    """Run the whole grid; ``parameters`` are the raw bytes that a launch passes."""
    _Grid(program, memory, parameters, blocks, threads).run()


class _Grid:
    """The state of one launch: a register is an array of raw bits with one entry per thread."""

    def __init__(self, program: Program, memory: Memory, parameters: list[bytes], blocks: int, threads: int) -> None:
        assert threads % _WARP_LANES == 0
        self.program, self.memory = program, memory
        self.count = blocks * threads
        thread = np.arange(self.count)
        self.registers: dict[str, Array] = {
            "%tid.x": (thread % threads).astype(np.uint32),
            "%ctaid.x": (thread // threads).astype(np.uint32),
        }
        space = bytearray(len(parameters) * _PARAMETER_SPACE_BYTES)
        for i, content in enumerate(parameters):
            space[i * _PARAMETER_SPACE_BYTES : i * _PARAMETER_SPACE_BYTES + len(content)] = content
        self.parameter_space = np.frombuffer(bytes(space), np.uint8)
        self.shared = np.full((blocks, program.shared_bytes), 0xFF, np.uint8)
        # Lock step hides a missing barrier, so reading after a store without one is refused.
        self.awaits_barrier = False
        self.block = thread // threads
        # The first instruction that a thread takes part in again; only forward branches are known.
        self.resumes_at = np.zeros(self.count, np.int64)
        self.active = np.ones(self.count, bool)

    def run(self) -> None:
        for position, instruction in enumerate(self.program.instructions):
            self.active = self.resumes_at <= position
            root, *modifiers = instruction.operation.split(".")
            if root == "bra":
                self._branch(instruction, position)
            elif root == "ret":
                self.resumes_at[self.active] = len(self.program.instructions)
            elif root == "bar":
                assert self.active.all(), "a thread does not reach the barrier"
                self.awaits_barrier = False
            elif self.active.any():
                assert not instruction.predicate, f"predicated {instruction.operation}"
                getattr(self, f"_{root}")(modifiers, *instruction.operands)

    def _branch(self, instruction: Instruction, position: int) -> None:
        target = self.program.labels[instruction.operands[0]]
        assert target > position, "loops are not known"
        taken = self.active.copy()
        if instruction.predicate:
            taken &= self.registers[instruction.predicate] != instruction.is_negated
        self.resumes_at[taken] = target

    # Operands

    def _bits(self, operand: str, kind: str = "b32") -> Array:
        """``kind`` gives the width of a number that is written in the instruction; a register has its own."""
        dtype = np.dtype(f"u{_BYTES.get('b' + kind[1:], 4)}")
        if operand.startswith("0f"):
            return np.full(self.count, int(operand[2:], 16), np.uint32)
        if operand.lstrip("-").isdigit():
            return np.full(self.count, int(operand) % (1 << (8 * dtype.itemsize)), dtype)
        if "_param_" in operand:
            return np.full(self.count, int(operand.rsplit("_", 1)[1]) * _PARAMETER_SPACE_BYTES, np.uint64)
        if operand.startswith("__static_shmem"):
            return np.zeros(self.count, dtype)
        return self.registers[operand]

    def _typed(self, operand: str, kind: str) -> Array:
        """A value as the type of the instruction: ``s32``, ``u64``, ``f32``, ``bf16``, ``f32x2`` (two columns) ..."""
        if kind == "bf16":
            return (self._bits(operand, "b16").astype(np.uint32) << 16).view(np.float32)
        if kind.endswith("x2"):
            return np.stack([unpack(half, kind[:-2]) for half in halves(self._bits(operand))], axis=1)
        dtype = np.dtype(FLOAT.get(kind) or integer(kind))
        bits = self._bits(operand, kind)
        assert bits.dtype.itemsize == dtype.itemsize, f"{operand} is no {kind}"
        return bits.view(dtype)

    def _write(self, destination: str, value: Array) -> None:
        if value.dtype != bool:
            value = np.ascontiguousarray(value).view(np.dtype(f"u{value.dtype.itemsize}")).reshape(self.count)
        old = self.registers.get(destination)
        self.registers[destination] = value if old is None else np.where(self.active, value, old)

    def _write_typed(self, destination: str, kind: str, value: Array) -> None:
        if kind.endswith("x2"):
            self._write(destination, joined(*(pack(value[:, i], kind[:-2]) for i in (0, 1))))
        else:
            self._write(destination, pack(value, kind) if kind[0] in "fb" else value)

    # Arithmetic. Results in float64 are rounded once; that differs from the hardware in the last bit at most.

    def _arithmetic(self, modifiers: list[str], destination: str, operands: tuple[str, ...], function: Any) -> None:
        kinds = [modifier for modifier in modifiers if modifier not in ("rn", "lo", "approx")]
        # fma.rn.f32.f16: the factors are f16, the addend and the result f32.
        factor = kinds[-1]
        values = [self._typed(operand, kinds[0] if i == 2 else factor) for i, operand in enumerate(operands)]
        if "f" in kinds[0]:
            values = [value.astype(np.float64) for value in values]
        with np.errstate(over="ignore"):
            self._write_typed(destination, kinds[0], function(*values))

    def _add(self, modifiers: list[str], destination: str, *operands: str) -> None:
        self._arithmetic(modifiers, destination, operands, lambda a, b: a + b)

    def _sub(self, modifiers: list[str], destination: str, *operands: str) -> None:
        self._arithmetic(modifiers, destination, operands, lambda a, b: a - b)

    def _min(self, modifiers: list[str], destination: str, *operands: str) -> None:
        self._arithmetic(modifiers, destination, operands, np.minimum)

    def _fma(self, modifiers: list[str], destination: str, *operands: str) -> None:
        self._arithmetic(modifiers, destination, operands, lambda a, b, c: a * b + c)

    _mad = _fma

    def _mul(self, modifiers: list[str], destination: str, *operands: str) -> None:
        if modifiers == ["wide", "u32"] or modifiers == ["hi", "u32"]:
            left, right = (self._typed(operand, "u32").astype(np.uint64) for operand in operands)
            product = left * right
            self._write(
                destination, product if modifiers[0] == "wide" else (product >> np.uint64(32)).astype(np.uint32)
            )
        else:
            self._arithmetic(modifiers, destination, operands, lambda a, b: a * b)

    def _rsqrt(self, modifiers: list[str], destination: str, operand: str) -> None:
        self._arithmetic(modifiers, destination, (operand,), lambda a: 1 / np.sqrt(a))

    # Bits

    def _and(self, modifiers: list[str], destination: str, left: str, right: str) -> None:
        self._write(destination, self._bits(left, modifiers[0]) & self._bits(right, modifiers[0]))

    def _or(self, modifiers: list[str], destination: str, left: str, right: str) -> None:
        self._write(destination, self._bits(left, modifiers[0]) | self._bits(right, modifiers[0]))

    def _not(self, modifiers: list[str], destination: str, operand: str) -> None:
        self._write(destination, ~self._bits(operand, modifiers[0]))

    def _shl(self, modifiers: list[str], destination: str, value: str, amount: str) -> None:
        bits = self._bits(value, modifiers[0])
        self._write(destination, bits << self._bits(amount).astype(bits.dtype))

    def _shr(self, modifiers: list[str], destination: str, value: str, amount: str) -> None:
        assert modifiers[0].startswith("u")
        bits = self._bits(value, modifiers[0])
        self._write(destination, bits >> self._bits(amount).astype(bits.dtype))

    def _mov(self, modifiers: list[str], destination: str, source: str) -> None:
        if source.startswith("{"):
            self._write(destination, joined(*(self._bits(part) for part in parts_of(source))))
        elif destination.startswith("{"):
            for part, half in zip(parts_of(destination), halves(self._bits(source)), strict=True):
                self._write(part, half)
        else:
            self._write(destination, self._bits(source, modifiers[0]))

    def _cvt(self, modifiers: list[str], destination: str, *operands: str) -> None:
        to, source = [modifier for modifier in modifiers if modifier != "rn"]
        if to.endswith("x2"):
            # The first operand becomes the upper half.
            high, low = (self._typed(operand, source) for operand in operands)
            self._write_typed(destination, to, np.stack([low, high], axis=1))
        else:
            value = self._typed(operands[0], source)
            self._write_typed(destination, to, value if to in FLOAT else value.astype(integer(to)))

    def _setp(self, modifiers: list[str], destination: str, left: str, right: str) -> None:
        kind = modifiers[1].replace("b", "u")
        self._write(destination, _COMPARISONS[modifiers[0]](self._typed(left, kind), self._typed(right, kind)))

    def _selp(self, modifiers: list[str], destination: str, left: str, right: str, predicate: str) -> None:
        chosen = self.registers[predicate]
        self._write(destination, np.where(chosen, self._bits(left, modifiers[0]), self._bits(right, modifiers[0])))

    # Other lanes and memory

    def _shfl(self, modifiers: list[str], destination: str, source: str, mask: str, clamp: str, members: str) -> None:
        assert (modifiers, clamp, members) == (["sync", "bfly", "b32"], "31", "-1")
        assert self.active.all(), "a lane is missing in a shuffle"
        lanes = self._bits(source).reshape(-1, _WARP_LANES)
        self._write(destination, lanes[:, np.arange(_WARP_LANES) ^ int(mask)].reshape(-1))

    def _address(self, operand: str) -> Array:
        base, _, offset = operand.strip("[]").partition("+")
        addresses: Array = self._bits(base, "b64").astype(np.uint64) + np.uint64(int(offset or 0))
        return addresses

    def _ld(self, modifiers: list[str], destination: str, operand: str) -> None:
        space, kind = modifiers[0], modifiers[-1]
        size = _BYTES["b" + kind[1:]]
        parts = parts_of(destination)
        addresses = self._address(operand)[self.active].astype(np.int64)
        total = size * len(parts)
        if space == "global":
            data = self.memory.load(addresses, total)
        else:
            assert not (addresses % total).any(), f"misaligned access of {total} bytes in .{space}"
            places = addresses[:, None] + np.arange(total)
            if space == "param":
                data = self.parameter_space[places]
            else:
                assert not self.awaits_barrier, "shared memory is read before a barrier"
                data = self.shared[self.block[self.active][:, None], places]
        for i, part in enumerate(parts):
            column = np.zeros((self.count, size), np.uint8)
            column[self.active] = data[:, i * size : (i + 1) * size]
            # A narrow load fills the rest of its register with zeros.
            self._write(part, column.view(np.dtype(f"u{size}")).reshape(-1).astype(register_type(part)))

    def _st(self, modifiers: list[str], operand: str, source: str) -> None:
        addresses = self._address(operand)[self.active].astype(np.int64)
        columns = [self._bits(part)[self.active] for part in parts_of(source)]
        data = np.stack(columns, axis=1).view(np.uint8).reshape(len(addresses), -1)
        if modifiers[0] == "global":
            self.memory.store(addresses, data)
        else:
            self.awaits_barrier = True
            self.shared[self.block[self.active][:, None], addresses[:, None] + np.arange(data.shape[1])] = data
