"""A kernel request: which kernel a deployment asks for, and with which arguments.

``manifest`` makes requests, ``keys`` expands them and a worker process gets them as JSON; so that these rooms agree on
one value without importing each other, it is a leaf. It does not know whether the kernel exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kernelforge.contract import Choices, IntRange
from kernelforge.errors import ContractError, InputError

Scalar = bool | int | float | str | None
Argument = bool | int | float | str | IntRange | Choices | None


@dataclass(frozen=True)
class KernelRequest:
    """One kernel with the arguments of its ``get_warmup_keys``.

    ``kernel`` is ``module:ClassName``. ``arguments`` become read-only and sorted by name, whatever order they came in,
    so that keys are enumerated in one order. ``line`` (in the manifest) and ``origins`` (argument -> where its value
    comes from) are for people: they take no part in equality or in the JSON form, and so never reach a key.
    Raises ``InputError`` for an argument that JSON cannot hold exactly.
    """

    kernel: str
    arguments: Mapping[str, Argument]
    line: int = field(default=0, compare=False)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name, argument in self.arguments.items():
            _check(argument, f"{self.kernel}.{name}")
        object.__setattr__(self, "arguments", _sorted_read_only(self.arguments))
        object.__setattr__(self, "origins", _sorted_read_only(self.origins))

    def to_json(self) -> dict[str, Any]:
        """``{"kernel", "arguments"}``; a range is ``{"range": {...}}``, choices are ``{"choices": [...]}``."""
        return {"kernel": self.kernel, "arguments": {name: _to_json(value) for name, value in self.arguments.items()}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KernelRequest:
        """Inverse of ``to_json``; raises ``InputError`` for anything else."""
        try:
            arguments = {name: _from_json(value) for name, value in data["arguments"].items()}
            return cls(kernel=data["kernel"], arguments=arguments)
        except (KeyError, TypeError, AttributeError, ContractError) as error:
            raise InputError(
                f"not a kernel request: {error!r}", hint="use what KernelRequest.to_json returned"
            ) from error


def _sorted_read_only(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({name: values[name] for name in sorted(values)})


def _check(argument: object, where: str) -> None:
    if isinstance(argument, IntRange):
        return
    for value in argument.values if isinstance(argument, Choices) else (argument,):
        if value is not None and type(value) not in (bool, int, float, str):
            raise InputError(
                f"{value!r} cannot be an argument",
                hint="use None, bool, int, float, str, an IntRange or Choices of these",
                where=where,
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{value!r} cannot be an argument", hint="JSON has no infinity and no NaN", where=where)


def _to_json(argument: Argument) -> Any:
    if isinstance(argument, IntRange):
        return {"range": {"start": argument.start, "stop": argument.stop, "step": argument.step}}
    if isinstance(argument, Choices):
        return {"choices": list(argument.values)}
    return argument


def _from_json(data: Any) -> Argument:
    if isinstance(data, Mapping):
        if set(data) == {"range"}:
            return IntRange(**data["range"])
        return Choices(tuple(data["choices"]))
    return data  # type: ignore[no-any-return]  # __post_init__ checks it
