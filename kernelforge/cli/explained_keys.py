"""Why a request has the keys that it has: its own ``dispatch``, watched while it runs.

Which points of the axes led to a key and which device facts were asked for is seen, not guessed: ``dispatch`` is
wrapped and the device profile stands behind a witness. Values out; ``explain`` shows them.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelforge.contract import Choices, IntRange, symbol_of
from kernelforge.device import DeviceProfile
from kernelforge.encoding import encode, fields_json
from kernelforge.keys.enumerate import enumerate_keys, import_kernel
from kernelforge.request import Argument, KernelRequest

Point = Mapping[str, Any]


@dataclass(frozen=True)
class ExplainedArgument:
    """An argument as the manifest gave it, and where the value comes from."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True)
class ExplainedKey:
    """A key; ``reached_by`` has one line for each set of points that led to it, e.g. ``tokens 1..17, 33``.

    ``points`` counts them; none when ``get_warmup_keys`` made the key without ``dispatch``.
    """

    symbol: str
    compile_key: Mapping[str, Any]
    points: int
    reached_by: tuple[str, ...]


@dataclass(frozen=True)
class ExplainedRequest:
    """One kernel on one device. ``facts`` are the device facts that were asked for: name -> (value, source)."""

    kernel: str
    device: str
    target: str
    arguments: tuple[ExplainedArgument, ...]
    facts: Mapping[str, tuple[Any, str]]
    points: int
    keys: tuple[ExplainedKey, ...]


def explain_request(request: KernelRequest, profile: DeviceProfile, target: str) -> ExplainedRequest:
    """Run the request's kernel for one device and note what happened; raises what ``enumerate_keys`` raises."""
    witness = _Witness(profile)
    enumerated = enumerate_keys(request, witness)
    reached = _points_by_key(request, witness)
    varying = _varying_axes([point for points in reached.values() for point in points])
    return ExplainedRequest(
        kernel=request.kernel,
        device=profile.name,
        target=target,
        arguments=tuple(
            ExplainedArgument(name, argument_text(value), request.origins.get(name, ""))
            for name, value in request.arguments.items()
        ),
        facts={name: witness.fact(name) for name in sorted(witness.asked)},
        points=enumerated.points,
        keys=tuple(_explained(request.kernel, key, reached, varying) for key in enumerated.keys),
    )


def argument_text(value: Argument) -> str:
    """``1..8192``, ``64 | 128`` or the value; ends are included, as manifests write them."""
    if isinstance(value, IntRange):
        return f"{value.start}..{value.last}{f' step {value.step}' if value.step > 1 else ''}"
    if isinstance(value, Choices):
        return " | ".join(map(repr, value.values))
    return repr(value)


class _Witness:
    """A device profile that notes which of its facts are asked for."""

    def __init__(self, profile: DeviceProfile) -> None:
        self._profile = profile
        self.asked: set[str] = set()

    @property
    def arch(self) -> str:
        self.asked.add("arch")
        return self._profile.arch

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._profile, name)
        if name in self._profile.facts:
            self.asked.add(name)
        return value

    def fact(self, name: str) -> tuple[Any, str]:
        """Value and source of a fact that was asked for."""
        if name == "arch":
            return self._profile.arch, f"device profile {self._profile.name}"
        return self._profile.facts[name].value, self._profile.facts[name].source


def _points_by_key(request: KernelRequest, witness: _Witness) -> dict[bytes, list[Point]]:
    kernel = import_kernel(request.kernel)(device=witness)
    dispatch = kernel.dispatch
    signature = inspect.signature(dispatch)
    reached: dict[bytes, list[Point]] = defaultdict(list)

    def watched(*positional: Any, **axes: Any) -> Any:
        key = dispatch(*positional, **axes)
        point = signature.bind(*positional, **axes).arguments if positional else axes
        reached[_identity(request.kernel, key)].append(point)
        return key

    setattr(kernel, "dispatch", watched)  # noqa: B010 (mypy: a method cannot be assigned to)
    kernel.get_warmup_keys(**request.arguments)
    return reached


def _identity(kernel: str, key: Any) -> bytes:
    return encode(key, where=kernel)


def _explained(
    kernel: str, key: Any, reached: Mapping[bytes, Sequence[Point]], varying: Mapping[str, Sequence[Any]]
) -> ExplainedKey:
    points = reached.get(_identity(kernel, key), ())
    return ExplainedKey(
        symbol=symbol_of(kernel, key),
        compile_key=fields_json(key, where=kernel),
        points=len(points),
        reached_by=tuple(_described(points, varying)) if points else (),
    )


def _varying_axes(points: Sequence[Point]) -> dict[str, list[Any]]:
    """Axis -> its distinct values, integers in their order, for the axes that have more than one."""
    values: dict[str, dict[str, Any]] = {axis: {} for point in points for axis in point}
    for point in points:
        for axis, distinct in values.items():
            distinct.setdefault(repr(point.get(axis)), point.get(axis))
    return {axis: _in_order(list(distinct.values())) for axis, distinct in values.items() if len(distinct) > 1}


def _in_order(values: list[Any]) -> list[Any]:
    return sorted(values) if _has_order(values) else values


def _has_order(values: Sequence[Any]) -> bool:
    return all(type(value) is int for value in values)


def _described(points: Sequence[Point], varying: Mapping[str, Sequence[Any]]) -> list[str]:
    """The points in words: runs along the axis with the most values, for each combination of the others."""
    if not varying:
        return ["every point"]
    run_axis = max(varying, key=lambda axis: len(varying[axis]))
    positions = {repr(value): position for position, value in enumerate(varying[run_axis])}
    by_others: dict[str, list[int]] = defaultdict(list)
    for point in points:
        others = ", ".join(f"{axis}={point.get(axis)!r}" for axis in varying if axis != run_axis)
        by_others[others].append(positions[repr(point.get(run_axis))])
    by_runs: dict[str, list[str]] = defaultdict(list)
    for others, found in by_others.items():
        by_runs[f"{run_axis} {_runs(found, varying[run_axis])}"].append(others)
    return [f"{runs} with {' or '.join(others)}" if others != [""] else runs for runs, others in by_runs.items()]


def _runs(positions: Sequence[int], values: Sequence[Any]) -> str:
    """``1..17, 33``: integers that are neighbours among the values that the axis takes are one run."""
    has_order = _has_order(values)
    runs: list[list[int]] = []
    for position in sorted(set(positions)):
        if has_order and runs and position == runs[-1][1] + 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    return ", ".join(_run_text(values[first], values[last]) for first, last in runs)


def _run_text(first: Any, last: Any) -> str:
    return repr(first) if first == last else f"{first!r}..{last!r}"
