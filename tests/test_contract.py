"""The kernel contract: what a class promises at plan is what it does at call, and every key is reached once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kernelforge.contract import (
    Choices,
    DeviceFacts,
    IntRange,
    JitKernel,
    kernel_launcher,
    kernel_name,
    kernel_name_of_key,
    symbol_of,
)
from kernelforge.device import DeviceProfile, Fact
from kernelforge.errors import ContractError, EncodingError, LaunchCodeDiffers, OutOfBounds, UnknownFact

DEVICE = DeviceProfile("h200", "sm_90a", {"num_sms": Fact(132, "made up for a test")})


class Tiles(JitKernel["Tiles.CompileKey"]):
    @dataclass(frozen=True)
    class CompileKey:
        tile: int
        tiles: int
        full: bool

    bounds = {"tokens": (1, 8192)}  # noqa: RUF012 (as kernel authors write it)

    def dispatch(self, *, tokens: int) -> CompileKey:
        tiles = -(-tokens // 32)
        tile = tokens if tiles == 1 else -(-tokens // (4 * tiles)) * 4
        return self.CompileKey(tile=tile, tiles=tiles, full=tokens % tile == 0)


class Anything(JitKernel["Anything.CompileKey"]):
    @dataclass(frozen=True)
    class CompileKey:
        value: Any
        other: Any = None

    supported = {"other": (None, 64, 128)}  # noqa: RUF012

    def dispatch(self, value: Any, other: Any = None) -> CompileKey:
        return self.CompileKey(value, other)

    @kernel_launcher
    def __call__(self, value: Any, *rest: Any) -> tuple[Any, ...]:
        return self.dispatch(value), (value, "argument"), *rest


@pytest.mark.parametrize(("last", "keys"), [(32, 32), (96, 46), (8192, 560)])
def test_points_fall_into_keys(last: int, keys: int) -> None:
    """Case H3: compiling every token count took 30 minutes where a few hundred kernels exist."""
    found = Tiles().expand(Tiles().dispatch)(tokens=IntRange(1, last + 1))
    assert (found.points, len(found)) == (last, keys)
    by_call = {tokens: Tiles().dispatch(tokens=tokens) for tokens in range(1, last + 1)}
    assert list(found) == list(dict.fromkeys(by_call.values())), "in the order in which they are first reached"


def test_keys_that_python_calls_equal_are_kept_apart() -> None:
    """Case A3: one of them would be served for the others."""
    values = (1, 1.0, True, "1", Choices((1,)), 1, True, 0.0, -0.0)
    found = Anything().get_warmup_keys(value=values)
    assert [repr(key.value) for key in found] == ["1", "1.0", "True", "'1'", "Choices(values=(1,))", "0.0", "-0.0"]


def test_axes_multiply() -> None:
    """Ranges, choices, tuples and lists are axes; anything else is one value."""
    found = Anything().expand(lambda **axes: Anything.CompileKey(tuple(axes.values())))(
        a=IntRange(0, 6, 2), b=Choices(("x", "y")), c=(True, None), d=[1.5], e="text"
    )
    assert found.points == len(found) == 12
    assert found[0].value == (0, "x", True, 1.5, "text")
    assert found[-1].value == (4, "y", None, 1.5, "text")


@pytest.mark.parametrize("use", ["dispatch", "get_warmup_keys"])
@pytest.mark.parametrize("value", [0, 8193, -1, 1.0, True, "1", None], ids=repr)
def test_bounds_hold_at_plan_and_at_call_alike(use: str, value: Any) -> None:
    """A value that is refused at plan and let through at call would ask for a key that nobody built."""
    with pytest.raises(OutOfBounds) as caught:
        getattr(Tiles(), use)(tokens=value)
    assert caught.value.problem == f"tokens={value!r} is not supported by tests.test_contract:Tiles"
    assert caught.value.hint == "tokens must be an int, 1 to 8192"
    assert caught.value.where == "tests.test_contract:Tiles.tokens"


@pytest.mark.parametrize("use", ["dispatch", "get_warmup_keys"])
@pytest.mark.parametrize("other", [0, 96, "64"], ids=repr)
def test_supported_values_hold_at_plan_and_at_call_alike(use: str, other: Any) -> None:
    """Case A4: the message is the same whoever asks, and names kernel, axis and what is allowed."""
    with pytest.raises(OutOfBounds, match=r"tests\.test_contract:Anything") as caught:
        getattr(Anything(), use)(value=1, other=other)
    assert caught.value.hint == "other must be one of None, 64, 128"


@pytest.mark.parametrize(
    ("kernel", "axes"),
    [
        (Tiles(), {"tokens": IntRange(1, 8194)}),
        (Tiles(), {"tokens": IntRange(0, 8)}),
        (Tiles(), {"tokens": [1, 9000]}),
        (Anything(), {"value": 1, "other": IntRange(64, 129, 32)}),
    ],
    ids=["last", "first", "in a list", "between the ends"],
)
def test_no_value_of_an_axis_escapes_the_check(kernel: JitKernel[Any], axes: dict[str, Any]) -> None:
    """Axes are checked as a whole, for speed: a supported value at both ends does not vouch for those between."""
    with pytest.raises(OutOfBounds):
        kernel.get_warmup_keys(**axes)


def test_positional_arguments_are_checked() -> None:
    with pytest.raises(OutOfBounds, match="other=96"):
        Anything().dispatch(1, 96)


def test_a_subclass_has_its_own_limits() -> None:
    """An inherited dispatch must not check the limits of the class that it came from."""

    class Wider(Tiles):
        bounds = {"tokens": (1, 10_000)}  # noqa: RUF012

    class Extended(Tiles):
        bounds = {"tokens": (5, 10)}  # noqa: RUF012

        def dispatch(self, *, tokens: int) -> Tiles.CompileKey:
            return super().dispatch(tokens=tokens)

    assert Wider().dispatch(tokens=9000).tiles == 282
    assert len(Wider().get_warmup_keys(tokens=IntRange(9000, 9002))) == 1
    for kernel in (Extended(), Tiles()):
        with pytest.raises(OutOfBounds):
            kernel.dispatch(tokens=9000)
    with pytest.raises(OutOfBounds):
        Extended().get_warmup_keys(tokens=IntRange(4, 6))


class Recorder:
    """Stands for a `KernelSet`: its kernels note the call and return what was launched."""

    def __init__(self, device: DeviceFacts = DEVICE, *, refuses: bool = False) -> None:
        self.device = device
        self.refuses = refuses
        self.events: list[Any] = []

    def bind(self, kernel_class: type[JitKernel[Any]]) -> None:
        if self.refuses:
            raise LaunchCodeDiffers(f"{kernel_class.__name__} differs", hint="build again")

    def __getitem__(self, compile_key: Any) -> Callable[..., Any]:
        def launch(*arguments: Any) -> str:
            self.events.append((compile_key, arguments))
            return "result"

        return launch


@pytest.mark.parametrize(
    ("rest", "returned"),
    [
        ((), "result"),
        (("outputs",), "outputs"),
        ((None,), None),
        (("outputs", lambda: "of the epilogue"), "of the epilogue"),
        ((None, lambda: None), None),
    ],
    ids=["two", "three", "three with None", "four", "four with None"],
)
def test_what_a_launch_returns(rest: tuple[Any, ...], returned: Any) -> None:
    source = Recorder()
    assert Anything(source)(7, *rest) == returned
    assert source.events == [(Anything.CompileKey(7), (7, "argument"))]


def test_an_epilogue_comes_after_the_launch() -> None:
    """It reads what the kernel wrote."""
    source = Recorder()
    Anything(source)(7, "outputs", lambda: source.events.append("epilogue"))
    assert [event[1] if isinstance(event, tuple) else event for event in source.events] == [(7, "argument"), "epilogue"]


def test_the_launcher_keeps_name_and_description() -> None:
    """They are what a user of the kernel reads, and what is fingerprinted as launch code."""
    assert Anything.__call__.__name__ == "__call__"
    assert hasattr(Anything.__call__, "__wrapped__")


def test_a_module_level_instance_is_bound_later() -> None:
    """Classes of inference engines are constructed at import, long before a pod has kernels."""
    singleton = Anything()
    with pytest.raises(ContractError, match="has no kernels"):
        singleton(7)
    with pytest.raises(ContractError, match="bound to no device"):
        _ = singleton.device
    with pytest.raises(LaunchCodeDiffers):
        singleton.bind(Recorder(refuses=True))
    with pytest.raises(ContractError, match="has no kernels"):
        singleton(7)
    singleton.bind(Recorder())
    assert singleton(7) == "result"
    assert singleton.device.num_sms == 132


def test_device_facts_come_from_the_profile() -> None:
    with pytest.raises(UnknownFact, match="l2_bytes"):
        _ = Anything(device=DEVICE).device.l2_bytes


@pytest.mark.parametrize(
    "use",
    [
        lambda kernel: kernel.dispatch(tokens=1),
        lambda kernel: kernel.get_warmup_keys(tokens=1),
        lambda kernel: kernel.kernel(None),
        lambda kernel: kernel.warmup_inputs(None),
    ],
    ids=["dispatch", "get_warmup_keys", "kernel", "warmup_inputs"],
)
def test_a_member_that_is_missing_is_named(use: Callable[[JitKernel[Any]], Any]) -> None:
    class Empty(JitKernel[Any]):
        pass

    with pytest.raises(ContractError, match=r"has no (dispatch|kernel|warmup_inputs)") as caught:
        use(Empty())
    assert "define " in caught.value.hint


@pytest.mark.parametrize("make", [lambda: IntRange(1, 1), lambda: IntRange(1, 9, 0), lambda: Choices(())])
def test_an_axis_without_values_is_refused(make: Callable[[], Any]) -> None:
    """It would expand to no keys, and the kernel would be missing in the pod."""
    with pytest.raises(ContractError):
        make()


def test_ranges_are_half_open() -> None:
    axis = IntRange(8, 30, 8)
    assert (list(axis), len(axis), axis.last) == ([8, 16, 24], 3, 24)


def test_a_symbol_is_made_of_kernel_and_key_alone() -> None:
    """It is in the object's bytes: equal code must give equal bytes whatever machine or target made it."""
    key = Anything.CompileKey(1, 64)
    symbol = symbol_of(kernel_name(Anything), key)
    assert symbol == symbol_of("tests.test_contract:Anything", Anything.CompileKey(1, 64))
    assert symbol == "kf_Anything_f14b5c32985c165743d388a6b7bc6040"
    assert symbol_of("tests.test_contract:Outer.Anything", key).startswith("kf_Outer_Anything_")
    values = (1, 1.0, True, "1", (1,))
    assert len({symbol_of("m:K", Anything.CompileKey(value)) for value in values} | {symbol_of("n:K", key)}) == 6
    with pytest.raises(EncodingError):
        symbol_of("m:K", Anything.CompileKey(object()))


def test_a_key_knows_its_kernel() -> None:
    assert kernel_name_of_key(Tiles.CompileKey(1, 1, True)) == kernel_name(Tiles) == "tests.test_contract:Tiles"
    for stray in (DEVICE, 1):
        with pytest.raises(ContractError, match="is no compile key"):
            kernel_name_of_key(stray)
