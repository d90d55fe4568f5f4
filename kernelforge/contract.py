"""The kernel contract: what a kernel class is, for whoever enumerates, compiles or launches it.

One class serves the builder (``kernel``, ``warmup_inputs``), the planner (``dispatch``, ``expand``) and the pod
(``__call__``), so that what is built and what is asked for cannot drift apart. Standard library only: a pod imports
this with no compiler and no torch present. It does not know how kernels are found, compiled or loaded.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from kernelforge.digest import Digest
from kernelforge.dispatch_memo import DispatchMemo
from kernelforge.encoding import encode
from kernelforge.errors import CallRefused, ContractError, OutOfBounds
from kernelforge.key_memo import KeyMemo

# Part of every key digest in the place of this module's source: raise it when a change here changes objects.
CONTRACT_VERSION = 1
# How an object is called. In keys and lockfiles, because an object of another convention would load and then fail.
ABI = "tvm-ffi"

KeyT = TypeVar("KeyT")
ClassT = TypeVar("ClassT", bound="type[JitKernel[Any]]")


class DeviceFacts(Protocol):
    """What ``dispatch`` may ask of ``self.device``: facts by name; an undeclared one raises ``UnknownFact``."""

    @property
    def arch(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...


class KernelSource(Protocol):
    """Where a kernel class gets its callables from at run time (a ``KernelSet`` is one)."""

    @property
    def device(self) -> DeviceFacts: ...
    def bind(self, kernel_class: type[JitKernel[Any]]) -> None:
        """Raise ``LaunchCodeDiffers`` unless the class is the one that the kernels were built for."""

    def __getitem__(self, compile_key: Any) -> Callable[..., Any]: ...


@dataclass(frozen=True)
class IntRange:
    """The integers ``start, start + step, ...`` below ``stop``: half open, as ``range``."""

    start: int
    stop: int
    step: int = 1

    def __post_init__(self) -> None:
        if self.step < 1 or self.stop <= self.start:
            raise ContractError(f"{self!r} holds no values", hint="start < stop and step >= 1; stop is not included")

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop, self.step))

    def __len__(self) -> int:
        return len(range(self.start, self.stop, self.step))

    @property
    def last(self) -> int:
        """The largest value."""
        return range(self.start, self.stop, self.step)[-1]


@dataclass(frozen=True)
class Choices:
    """The given values, one after the other."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ContractError("an axis has no choices", hint="give at least one value")

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


class KeyList(list[KeyT]):
    """Distinct compile keys in the order in which they were first reached, and how many points led to them."""

    def __init__(self, keys: Sequence[KeyT], points: int) -> None:
        super().__init__(keys)
        self.points = points


class JitKernel(Generic[KeyT]):
    """Base of every kernel class; ``KeyT`` is the class's own ``CompileKey``, a frozen dataclass.

    ``bounds``: inclusive limits of integer axes of ``dispatch``; ``supported``: the allowed values of other axes. Both
    are checked whenever ``dispatch`` runs, so they hold at plan and at call alike (``OutOfBounds``).
    ``requires_dsl``: version range of the compiler (``>=4.8,<5``), checked at plan. ``compile_options``: further
    options of the compiler as one string; part of the key digest.
    """

    CompileKey: ClassVar[type]
    bounds: ClassVar[Mapping[str, tuple[int, int]]] = {}
    supported: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    requires_dsl: ClassVar[str] = ""
    compile_options: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "dispatch" in cls.__dict__:
            setattr(cls, "dispatch", _within_bounds(cls.__dict__["dispatch"]))  # noqa: B010 (mypy: no member)

    def __init__(self, kernels: KernelSource | None = None, *, device: DeviceFacts | None = None) -> None:
        """With no arguments the instance can be bound later (``bind``); ``device`` alone serves enumeration."""
        self._kernels: KernelSource | None = None
        self._device = device
        self._dispatched: dict[Callable[..., KeyT], DispatchMemo[KeyT]] = {}
        if kernels is not None:
            self.bind(kernels)

    def bind(self, kernels: KernelSource) -> None:
        """Take callables and device facts from ``kernels``; raises ``LaunchCodeDiffers`` for another class version."""
        kernels.bind(type(self))
        self._kernels = kernels
        self._device = kernels.device
        self._dispatched = {}

    @property
    def device(self) -> DeviceFacts:
        """Facts of the device that keys are made for, from its device profile, never from the driver."""
        if self._device is None:
            raise ContractError(f"{kernel_name(type(self))} is bound to no device", hint="pass kernels= or device=")
        return self._device

    def dispatch(self, *args: Any, **axes: Any) -> KeyT:
        """Run-time facts -> compile key. Plain Python, pure: serves enumeration and the run-time call.

        It may depend on its arguments, ``self.device`` and what the constructor set; answers are remembered.
        """
        raise ContractError(f"{kernel_name(type(self))} has no dispatch", hint="define dispatch(self, *, ...)")

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        """The ``@cute.jit`` host entry point for this key. Runs in a builder only."""
        raise ContractError("the kernel class has no kernel()", hint="define kernel(compile_key)")

    def warmup_inputs(self, compile_key: KeyT) -> tuple[Any, ...]:
        """Fake tensors and scalars to trace with, in the order of the launch arguments; the stream is appended."""
        raise ContractError(f"{kernel_name(type(self))} has no warmup_inputs", hint="define warmup_inputs(compile_key)")

    def get_warmup_keys(self, **axes: Any) -> list[KeyT]:
        """All keys that a deployment can ask for. By default the arguments are the axes of ``dispatch``."""
        return self.expand(self.dispatch)(**axes)

    def expand(self, dispatch: Callable[..., KeyT]) -> Callable[..., KeyList[KeyT]]:
        """Run ``dispatch`` over the product of its axes (``IntRange``, ``Choices``, tuples, lists; else one value).

        Keys are told apart by their canonical bytes, not with ``==``: ``1``, ``1.0`` and ``True`` are three keys.
        """

        def enumerate_keys(**axes: Any) -> KeyList[KeyT]:
            unchecked = self._check_axes(dispatch, axes)
            names = list(axes)
            keys: list[KeyT] = []
            known: dict[type, KeyMemo[bool]] = {}
            points = 0
            for values in itertools.product(*(_values(axes[name]) for name in names)):
                key = unchecked(**dict(zip(names, values)))  # noqa: B905 (always as long; strict= costs 0.1 us a point)
                points += 1
                memo = known.get(type(key)) or known.setdefault(type(key), KeyMemo(type(key)))
                if memo.get(key) is None:
                    memo.add(key, True)
                    keys.append(key)
            return KeyList(keys, points)

        return enumerate_keys

    # The name under which vLLM's classes know it.
    _trace_dispatch = expand

    def _check_axes(self, dispatch: Callable[..., KeyT], axes: Mapping[str, Any]) -> Callable[..., KeyT]:
        """Check whole axes once and return ``dispatch`` without its check, which takes 2 of 9 us at every point."""
        original = getattr(dispatch, "__wrapped__", None)
        if getattr(dispatch, "__self__", None) is not self or original is None:
            return dispatch
        for name, axis in axes.items():
            # Bounds have no holes, so the ends of a range stand for all of it; supported values are single ones.
            is_decided_by_ends = isinstance(axis, IntRange) and name not in self.supported
            for value in (axis.start, axis.last) if is_decided_by_ends else _values(axis):
                self._check_axis(name, value)
        return functools.partial(original, self)

    def _check_axis(self, name: str, value: Any) -> None:
        """Raise ``OutOfBounds`` unless ``bounds`` and ``supported`` allow this value of an axis."""
        limits = self.bounds.get(name)
        if limits and not (type(value) is int and limits[0] <= value <= limits[1]):
            raise _out_of_bounds(self, name, value, f"an int, {limits[0]} to {limits[1]}")
        allowed = self.supported.get(name)
        if allowed is not None and value not in allowed:
            raise _out_of_bounds(self, name, value, f"one of {', '.join(map(repr, allowed))}")


def kernel_launcher(describe: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """Turn a method that describes a launch into one that does it.

    The method returns ``(compile_key, launch_arguments[, outputs[, epilogue]])``. The launched callable's result is
    returned, or ``outputs`` if given; with an ``epilogue`` that is called after the launch and its result is returned.
    Arguments that it cannot describe a launch for (None, a tensor of another rank, one too few) are ``CallRefused``.
    """

    @functools.wraps(describe)
    def launch(self: JitKernel[Any], *args: Any, **kwargs: Any) -> Any:
        try:
            description = describe(self, *args, **kwargs)
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise _call_refused(self, error) from error
        if self._kernels is None:
            raise ContractError(f"{kernel_name(type(self))} has no kernels", hint="construct it with a KernelSet")
        result = self._kernels[description[0]](*description[1])
        if len(description) == 4:
            return description[3]()
        return description[2] if len(description) == 3 else result

    return launch


def kernel_name(kernel_class: type) -> str:
    """``module:ClassName``: the name of a kernel everywhere."""
    return f"{kernel_class.__module__}:{kernel_class.__qualname__}"


def kernel_name_of_key(compile_key: object) -> str:
    """The kernel that a compile key belongs to: its class is defined inside the kernel class."""
    key_class = type(compile_key)
    owner, _, own_name = key_class.__qualname__.rpartition(".")
    if not owner or owner.endswith("<locals>"):
        raise ContractError(f"{own_name} is no compile key", hint="define CompileKey inside its kernel class")
    return f"{key_class.__module__}:{owner}"


def symbol_of(kernel: str, compile_key: object) -> str:
    """The name of a key's callable in objects and packs: ``kf_<ClassName>_<32 hex digits>``.

    Made from kernel name (``module:ClassName``) and compile key alone, never from the key digest, so that equal code
    gives equal bytes whatever compiler or target made it. Raises ``EncodingError`` for a key without an encoding.
    """
    class_name = kernel.rpartition(":")[2].replace(".", "_")
    identity = encode((kernel, compile_key), where=kernel)
    return f"kf_{class_name}_{Digest.of(identity).hex[:32]}"


def _values(axis: Any) -> Sequence[Any] | IntRange | Choices:
    return axis if isinstance(axis, (IntRange, Choices, tuple, list)) else (axis,)


def _within_bounds(dispatch: Callable[..., KeyT]) -> Callable[..., KeyT]:
    signature = inspect.signature(dispatch)

    def answer(self: JitKernel[KeyT], *args: Any, **axes: Any) -> KeyT:
        given = signature.bind(self, *args, **axes).arguments if args else axes
        for name, value in given.items():
            if name in self.bounds or name in self.supported:
                self._check_axis(name, value)
        return dispatch(self, *args, **axes)

    @functools.wraps(dispatch)
    def checked(self: JitKernel[KeyT], *args: Any, **axes: Any) -> KeyT:
        if args:
            return answer(self, *args, **axes)
        memo = self._dispatched.get(dispatch)
        if memo is None:
            memo = self._dispatched[dispatch] = DispatchMemo(functools.partial(answer, self))
        return memo.ask(axes)

    return cast("Callable[..., KeyT]", checked)


def _call_refused(kernel: JitKernel[Any], error: Exception) -> CallRefused:
    name = kernel_name(type(kernel))
    return CallRefused(
        f"no launch can be described for these arguments: {error}; nothing was launched",
        hint=f"see {type(kernel).__qualname__}.__call__ for what it takes",
        where=name,
    )


def _out_of_bounds(kernel: JitKernel[Any], axis: str, value: object, allowed: str) -> OutOfBounds:
    name = kernel_name(type(kernel))
    return OutOfBounds(
        f"{axis}={value!r} is not supported by {name}", hint=f"{axis} must be {allowed}", where=f"{name}.{axis}"
    )


# Aliases for classes written against vLLM's base class: change the base class and the imports, nothing else.
WarmupIntRange = IntRange
VllmCuTeDSLJitKernel = JitKernel


def WarmupChoices(*values: Any) -> Choices:  # noqa: N802 (it stands for a class there)
    """``Choices`` of the arguments: ``WarmupChoices(False, True)``."""
    return Choices(values)


class CuTeDSLLaunchSpec(Generic[KeyT]):
    """Only an annotation: ``-> CuTeDSLLaunchSpec[CompileKey]`` on a ``kernel_launcher`` method."""
