"""A kernel class remembers what its dispatch answered; that must never be another answer than it would give."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import pytest

from kernelforge import dispatch_memo
from kernelforge.contract import JitKernel
from kernelforge.device import DeviceProfile, Fact
from kernelforge.errors import OutOfBounds


def device(num_sms: int) -> DeviceProfile:
    return DeviceProfile("a", "sm_90a", {"num_sms": Fact(num_sms, "the test")})


class Counted(JitKernel["Counted.CompileKey"]):
    """Says in its key what it was asked, and counts how often it had to think."""

    @dataclass(frozen=True)
    class CompileKey:
        axes: str
        num_sms: int

    bounds = {"tokens": (1, 100)}  # noqa: RUF012

    def __init__(self, kernels: Any = None, **options: Any) -> None:
        super().__init__(kernels, **options)
        self.thoughts = 0

    def dispatch(self, **axes: Any) -> CompileKey:
        self.thoughts += 1
        return self.CompileKey(repr(sorted(axes.items())), self.device.num_sms)


class Kernels:
    """As much of a kernel set as binding needs."""

    device = device(148)

    def bind(self, kernel_class: type) -> None:
        """Any class will do."""

    def __getitem__(self, compile_key: Any) -> Any:
        raise AssertionError("nothing is launched here")


class Color(enum.Enum):
    RED = 1


def test_the_same_arguments_give_the_same_key_without_thinking_again() -> None:
    kernel = Counted(device=device(132))
    assert kernel.dispatch(tokens=1, eps=1e-6) is kernel.dispatch(tokens=1, eps=1e-6)
    assert kernel.thoughts == 1


PLAIN = [1, 1.0, True, "1", b"1", 0, 0.0, False, None, Color.RED]
# Equal to others inside, or with a sign that equality does not see: not remembered.
OTHERS = [-0.0, (1,), (1.0,), (True,), (0.0,), (-0.0,), [1], ["1"]]


@pytest.mark.parametrize("values", [PLAIN + OTHERS, OTHERS + PLAIN])
def test_values_that_only_look_equal_are_asked_each(values: list[Any]) -> None:
    """1 == 1.0 == True and 0.0 == -0.0, also inside a tuple: a memo by equality would pick the other kernel."""
    kernel = Counted(device=device(132))
    for _ in range(2):
        assert [kernel.dispatch(value=value).axes for value in values] == [repr([("value", value)]) for value in values]
    assert kernel.thoughts == len(PLAIN) + 2 * len(OTHERS)


def test_names_count_as_well_as_values() -> None:
    kernel = Counted(device=device(132))
    assert kernel.dispatch(rows=1, columns=2) != kernel.dispatch(rows=2, columns=1)
    assert kernel.dispatch(rows=1) != kernel.dispatch(columns=1)


def test_an_error_is_the_dispatchs_own() -> None:
    """A TypeError of dispatch is not taken for one about a value that cannot be remembered."""

    class Failing(Counted):
        def dispatch(self, *, value: Any) -> Counted.CompileKey:
            return self.CompileKey(value + "!", 0)

    kernel = Failing(device=device(132))
    for _ in range(2):
        with pytest.raises(TypeError, match="unsupported operand") as refusal:
            kernel.dispatch(value=1)
        assert refusal.value.__context__ is None


def test_a_value_that_changes_is_asked_again() -> None:
    kernel, shape = Counted(device=device(132)), [1]
    before = kernel.dispatch(shape=shape)
    shape.append(2)
    assert kernel.dispatch(shape=shape) != before


def test_limits_hold_for_every_call() -> None:
    kernel = Counted(device=device(132))
    kernel.dispatch(tokens=1)
    for _ in range(2):
        with pytest.raises(OutOfBounds) as refusal:
            kernel.dispatch(tokens=101)
        assert refusal.value.__context__ is None
        with pytest.raises(OutOfBounds):
            kernel.dispatch(tokens=True)


def test_binding_to_another_device_forgets() -> None:
    """The facts of the device are an input of dispatch that is no argument."""
    kernel = Counted(device=device(132))
    assert kernel.dispatch(tokens=1).num_sms == 132
    kernel.bind(Kernels())
    assert kernel.dispatch(tokens=1).num_sms == 148


def test_a_dispatch_that_asks_its_base_class_gets_that_ones_answer() -> None:
    class Derived(Counted):
        def dispatch(self, **axes: Any) -> Counted.CompileKey:
            return self.CompileKey("derived " + super().dispatch(**axes).axes, 0)

    kernel = Derived(device=device(132))
    for _ in range(2):
        assert kernel.dispatch(tokens=1).axes == "derived [('tokens', 1)]"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts have any length: a server that runs for weeks must not keep one answer for each."""
    monkeypatch.setattr(dispatch_memo, "_LIMIT", 10)
    kernel = Counted(device=device(132))
    for tokens in range(1, 101):
        kernel.dispatch(tokens=tokens)
    (memo,) = kernel._dispatched.values()
    assert len(memo) <= 10
    assert kernel.dispatch(tokens=100).axes == "[('tokens', 100)]"
