"""Requests -> compile keys: runs a kernel class's own ``get_warmup_keys`` and holds the class to the contract.

Only the class's module is imported, never its device code. Every way in which a class or its arguments can be wrong
is an error that names the kernel and what to change.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernelforge.contract import DeviceFacts, JitKernel, kernel_name
from kernelforge.encoding import encode
from kernelforge.errors import ContractError, KernelForgeError
from kernelforge.request import KernelRequest

# Annotations that promise one exact type. `int` given True or 1.0 would be another key than the author meant.
_EXACT_TYPES: dict[object, type] = {kind: kind for kind in (int, bool, float, str)}
_EXACT_TYPES |= {kind.__name__: kind for kind in (int, bool, float, str)}


@dataclass(frozen=True)
class EnumeratedKeys:
    """Distinct compile keys in the order in which they were first reached, and how many points led to them."""

    keys: tuple[Any, ...]
    points: int


def enumerate_keys(request: KernelRequest, profile: DeviceFacts) -> EnumeratedKeys:
    """All compile keys that a request can ask for on one device.

    Raises ``ContractError`` (the class, its arguments or its keys break the contract), ``OutOfBounds``,
    ``UnknownFact`` (the profile lacks a fact) and ``EncodingError`` (a field has no stable encoding).
    """
    kernel_class = import_kernel(request.kernel)
    _check_arguments(request.kernel, kernel_class, request.arguments)
    try:
        found = kernel_class(device=profile).get_warmup_keys(**request.arguments)
        keys = list(found)
    except KernelForgeError:
        raise
    except (Exception, SystemExit) as error:
        raise ContractError(
            f"get_warmup_keys of {request.kernel} failed: {_one_line(error)}",
            hint="run it with these arguments in a Python shell",
            where=_innermost_line(error),
        ) from error
    return EnumeratedKeys(_distinct(request.kernel, kernel_class, keys), getattr(found, "points", len(keys)))


def import_kernel(kernel: str) -> type[JitKernel[Any]]:
    """The class that ``module:ClassName`` names; ``ContractError`` if there is none or it is no kernel class."""
    module_name, _, class_name = kernel.partition(":")
    if not module_name or not class_name.isidentifier():
        raise ContractError(f"{kernel!r} does not name a kernel", hint="write module:ClassName", where=kernel)
    module = _import_module(module_name, kernel)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = [name for name, value in vars(module).items() if _is_kernel_class(value)]
        raise ContractError(
            f"module {module_name} has no class {class_name!r}", hint=_did_you_mean(class_name, classes), where=kernel
        )
    if not _is_kernel_class(found):
        raise ContractError(
            f"{kernel} is not a kernel class", hint="derive it from kernelforge.contract.JitKernel", where=kernel
        )
    if kernel_name(found) != kernel:
        # Symbols, records and fingerprints go by the name under which the class is defined.
        raise ContractError(f"{kernel} is defined under another name", hint=f"write {kernel_name(found)}", where=kernel)
    return found


def _import_module(module_name: str, kernel: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if f"{module_name}.".startswith(f"{missing}."):
            raise ContractError(
                f"there is no module {missing!r}", hint="check the name, and that it can be imported here", where=kernel
            ) from error
        raise ContractError(
            f"importing {module_name} needs {missing!r}, which is not installed",
            hint=f"install {missing}, or import it inside the functions that need it",
            where=_innermost_line(error),
        ) from error
    except (Exception, SystemExit) as error:
        raise ContractError(
            f"importing {module_name} failed: {_one_line(error)}",
            hint="importing a kernel's module must work without a GPU",
            where=_innermost_line(error),
        ) from error


def _check_arguments(kernel: str, kernel_class: type[JitKernel[Any]], arguments: Mapping[str, object]) -> None:
    own = kernel_class.get_warmup_keys
    # Without a get_warmup_keys of its own, the class takes the axes of its dispatch.
    function = kernel_class.dispatch if own is JitKernel.get_warmup_keys else own
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return
    accepted = [parameter.name for parameter in parameters]
    for name in arguments:
        if name not in accepted:
            raise ContractError(
                f"{kernel} takes no argument {name!r}", hint=_did_you_mean(name, accepted), where=f"{kernel}.{name}"
            )
    for parameter in parameters:
        if parameter.default is inspect.Parameter.empty and parameter.name not in arguments:
            raise ContractError(
                f"{kernel} needs the argument {parameter.name!r}",
                hint=f"its arguments are: {', '.join(accepted)}",
                where=f"{kernel}.{parameter.name}",
            )


def _distinct(kernel: str, kernel_class: type[JitKernel[Any]], keys: Iterable[Any]) -> tuple[Any, ...]:
    distinct: dict[bytes, Any] = {}
    for key in keys:
        check_key(kernel, kernel_class, key)
        distinct.setdefault(encode(key, where=f"{kernel}.CompileKey"), key)
    if not distinct:
        raise ContractError(
            f"{kernel} asks for no keys", hint="widen its arguments, or take it out of the manifest", where=kernel
        )
    return tuple(distinct.values())


def check_key(kernel: str, kernel_class: type[JitKernel[Any]], key: Any) -> None:
    """Raise ``ContractError`` unless ``key`` is a frozen ``CompileKey`` of the class, its fields as declared."""
    where = f"{kernel}.CompileKey"
    key_class: Any = getattr(kernel_class, "CompileKey", None)
    parameters = getattr(key_class, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise ContractError(
            f"{where} is not a frozen dataclass", hint="declare it with @dataclass(frozen=True)", where=where
        )
    if type(key) is not key_class:
        raise ContractError(
            f"{kernel} made a {type(key).__qualname__} where a key is due", hint="return CompileKey(...)", where=where
        )
    for field in dataclasses.fields(key):
        expected = _EXACT_TYPES.get(field.type)
        value = getattr(key, field.name)
        if expected is not None and type(value) is not expected:
            raise ContractError(
                f"{field.name} is {value!r}, a {type(value).__name__}, and is declared {expected.__name__}",
                hint=f"convert it in dispatch, or declare {field.name} with the type that you mean",
                where=f"{where}.{field.name}",
            )


def _is_kernel_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, JitKernel) and value is not JitKernel


def _did_you_mean(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1)
    listed = f"known: {', '.join(known)}" if known else "there are none"
    return f"did you mean {nearest[0]!r}? ({listed})" if nearest else listed


def _one_line(error: BaseException) -> str:
    return " ".join(traceback.format_exception_only(type(error), error)[-1].split())


def _innermost_line(error: BaseException) -> str:
    """``file:line`` at which foreign code raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
