"""Turns what a manifest writes for one argument of a kernel into a value, a range or choices, with its origin.

The four forms: a value; ``{from: engine.dtype}``; ``{range: [first, last]}`` with both ends included and an optional
``step``; ``{choices: [...]}``. Ends and choices may be ``{from: ...}`` themselves. It does not know the kernels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelforge.contract import Choices, IntRange
from kernelforge.manifest.problems import Problems, did_you_mean
from kernelforge.manifest.reachable import Reachable
from kernelforge.manifest.section import describe
from kernelforge.manifest.yaml_node import Node
from kernelforge.manifest.yaml_scalar import Scalar, other_meaning
from kernelforge.request import Argument

_FORMS = "a value, {from: ...}, {range: [first, last]} or {choices: [...]}"


@dataclass(frozen=True)
class Resolved:
    """``origin`` says where the value comes from: the line, or the setting or model field and its line."""

    value: Argument
    origin: str


def read_argument(node: Node, reach: Reachable, problems: Problems, *, name: str) -> Resolved | None:
    """The argument's value, or None after adding problems."""
    return _Reader(reach, problems, name).argument(node)


class _Reader:
    def __init__(self, reach: Reachable, problems: Problems, name: str) -> None:
        self._reach = reach
        self._problems = problems
        self._name = name

    def argument(self, node: Node) -> Resolved | None:
        form = {} if node.refused else node.entries
        if "range" in form and set(form) <= {"range", "step"}:
            return self._range(node)
        if set(form) == {"choices"}:
            return self._choices(form["choices"])
        return self._scalar(node)

    def _scalar(self, node: Node) -> Resolved | None:
        if node.refused:
            return None
        if isinstance(node.value, Mapping):
            return self._from(node)
        if isinstance(node.value, tuple):
            return self._wrong(node, "is a list", "write {choices: [...]} for values to build for")
        if node.spelling == "" and node.value is None:
            return self._wrong(node, "has no value", "give it one, or write null if that is meant")
        meaning = other_meaning(node.spelling)
        if meaning:
            hint = f'quote it if text is meant, "{node.spelling}"; write true, false or plain digits if not'
            return self._wrong(node, f"is {node.spelling}, which many YAML readers take for {meaning}", hint)
        return Resolved(node.value, f"given ({node.place})")

    def _from(self, node: Node) -> Resolved | None:
        if set(node.entries) != {"from"}:
            unknown = sorted(set(node.entries) - {"from", "range", "step", "choices"})
            hint = did_you_mean(unknown[0], ("from", "range", "step", "choices")) if unknown else f"write {_FORMS}"
            return self._wrong(node, f"is a mapping with {', '.join(node.entries) or 'nothing in it'}", hint)
        path = node.entries["from"]
        if path.refused:
            return None
        if not isinstance(path.value, str):
            return self._wrong(
                path, f"takes its value from {describe(path)}", "write {from: model.head_dim} or the like"
            )
        if not self._reach.has(path.value, path.place, self._problems):
            return None
        return Resolved(self._reach.values[path.value], self._reach.origins[path.value])

    def _range(self, node: Node) -> Resolved | None:
        ends = node.entries["range"]
        if ends.refused:
            return None
        if len(ends.items) != 2:
            return self._wrong(ends, "needs a first and a last value", "write {range: [1, 8192]}; both are included")
        parts = [self._whole_number(each) for each in ends.items]
        if "step" in node.entries:
            parts.append(self._whole_number(node.entries["step"]))
        if any(part is None for part in parts):
            return None
        first, last, *step = [part[0] for part in parts if part]
        if first > last:
            return self._wrong(
                ends, f"has an empty range: {first} is above {last}", f"write {{range: [{last}, {first}]}}"
            )
        if step and step[0] < 1:
            return self._wrong(node.entries["step"], f"has the step {step[0]}", "the least step is 1")
        return Resolved(IntRange(first, last + 1, *step), _joined(part[1] for part in parts if part))

    def _whole_number(self, node: Node) -> tuple[int, str] | None:
        resolved = self._scalar(node)
        if resolved is None:
            return None
        if type(resolved.value) is not int:
            self._wrong(node, f"needs whole numbers for its range, not {resolved.value!r}", "write {range: [1, 8192]}")
            return None
        return resolved.value, resolved.origin

    def _choices(self, node: Node) -> Resolved | None:
        if node.refused:
            return None
        if not node.items:
            return self._wrong(
                node, f"has {describe(node)} for choices" if node.value else "has no choices", "list at least one value"
            )
        resolved = [self._scalar(item) for item in node.items]
        found = [each for each in resolved if each is not None]
        if len(found) < len(resolved):
            return None
        seen: set[str] = set()
        for item, each in zip(node.items, found, strict=True):
            # As JSON, because 1, 1.0 and true are equal in Python and three choices here.
            text = json.dumps(each.value)
            if text in seen:
                return self._wrong(item, f"has the choice {text} twice", "delete one of them")
            seen.add(text)
        values: tuple[Scalar, ...] = tuple(each.value for each in found)  # type: ignore[misc]  # _scalar gives scalars
        return Resolved(Choices(values), _joined(each.origin for each in found))

    def _wrong(self, node: Node, what: str, hint: str) -> Resolved | None:
        """Add a problem; None, so that a reader can return it."""
        self._problems.add(node.place, f"{self._name} {what}", hint=hint)
        return None


def _joined(origins: Iterator[str]) -> str:
    """The distinct origins; a plain literal is only worth naming where there is nothing else."""
    distinct = list(dict.fromkeys(origins))
    named = [origin for origin in distinct if not origin.startswith("given")]
    return "; ".join(named or distinct[:1])
