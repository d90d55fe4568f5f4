"""PTX text -> instructions. Knows how PTX is written, not what an instruction does."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Instruction:
    predicate: str
    is_negated: bool
    operation: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """The one kernel of a PTX file; ``parameter_bytes`` are the sizes of its parameters in order."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    parameter_bytes: tuple[int, ...]
    shared_bytes: int

    @classmethod
    def parse(cls, ptx: str) -> Program:
        assert ptx.count(".entry") == 1
        header, body = ptx[ptx.index(".entry") :].split("{", 1)
        parameters = re.findall(r"\.param (?:\.align \d+ )?\.(\w+) \w+_param_\d+(?:\[(\d+)\])?", header)
        sizes = tuple(int(count or {"u32": 4, "u64": 8}.get(kind, 0)) for kind, count in parameters)
        shared = sum(map(int, re.findall(r"\.shared [^;]*\[(\d+)\];", body)))
        instructions: list[Instruction] = []
        labels: dict[str, int] = {}
        for line in re.sub(r"//.*", "", body).splitlines():
            text = line.strip()
            if label := re.fullmatch(r"(\$\w+):", text):
                labels[label[1]] = len(instructions)
            elif text and text[0] not in ".}":
                instructions.append(_parse_instruction(text))
        return cls(tuple(instructions), labels, sizes, shared)


def _parse_instruction(text: str) -> Instruction:
    match = re.fullmatch(r"(?:@(!?)(%p\d+)\s+)?([\w.:]+)\s*(.*);", text)
    assert match, f"cannot read {text!r}"
    operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", match[4])
    return Instruction(match[2] or "", match[1] == "!", match[3], tuple(operands))


def parts_of(operand: str) -> list[str]:
    """``{a, b}`` -> ``[a, b]``; a lone operand is its own part."""
    return [part.strip() for part in operand.strip("{}").split(",")]
