"""Device profiles: kernels see declared facts only, and what is declared is exact and has a source."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelforge.device import FACTS, DeviceProfile, Fact, FactValue
from kernelforge.errors import InputError, TargetError, UnknownFact
from kernelforge.target import ARCHITECTURES

H200 = DeviceProfile(
    "h200-sxm",
    "sm_90a",
    {
        "num_sms": Fact(132, "measured on the card"),
        "max_active_clusters": Fact({"1": 132, "2": 66}, "measured on the card"),
        "driver_names": Fact(("NVIDIA H200",), "measured on the card"),
    },
)


@st.composite
def profiles(draw: st.DrawFn) -> DeviceProfile:
    """Any profile: every fact is there or not."""
    kinds: dict[type, st.SearchStrategy[FactValue]] = {
        int: st.integers(),
        tuple: st.lists(st.text()).map(tuple),
        dict: st.dictionaries(st.text(), st.integers()),
    }
    facts = {name: st.builds(Fact, kinds[kind], st.text(min_size=1)) for name, (kind, _) in FACTS.items()}
    arch = draw(st.sampled_from(ARCHITECTURES))
    return DeviceProfile(draw(st.text()), arch, draw(st.fixed_dictionaries({}, optional=facts)))


@given(profiles())
def test_json_round_trip(profile: DeviceProfile) -> None:
    """A lockfile and a compiling process get profiles as JSON; a changed type would be another compile key."""
    back = DeviceProfile.from_json(json.loads(json.dumps(profile.to_json())))
    assert back == profile
    assert repr({name: fact.value for name, fact in sorted(back.facts.items())}) == repr(
        {name: fact.value for name, fact in sorted(profile.facts.items())}
    )


def test_facts_are_attributes() -> None:
    """What `dispatch` reads as `self.device.num_sms`."""
    assert H200.num_sms == H200.fact("num_sms") == 132
    assert H200.max_active_clusters["2"] == 66
    assert H200.driver_names == ("NVIDIA H200",)


@pytest.mark.parametrize("ask", [getattr, DeviceProfile.fact], ids=["attribute", "call"])
@pytest.mark.parametrize(
    ("fact", "hint"), [("l2_bytes", "add facts.l2_bytes with its source"), ("sm_count", "facts: num_sms")]
)
def test_an_undeclared_fact_is_named(ask: Callable[[DeviceProfile, str], Any], fact: str, hint: str) -> None:
    """An AttributeError, or a default, would bake a made-up number into an object."""
    with pytest.raises(UnknownFact) as caught:
        ask(H200, fact)
    assert (caught.value.fact, caught.value.where) == (fact, "h200-sxm")
    assert fact in caught.value.problem
    assert "h200-sxm" in caught.value.problem
    assert hint in caught.value.hint


def test_python_may_look_for_its_own_names() -> None:
    """`copy`, `pickle` and frameworks probe for dunder names: these are no facts."""
    assert not hasattr(H200, "__cuda_array_interface__")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_sms", True),
        ("num_sms", 132.0),
        ("num_sms", "132"),
        ("num_sms", None),
        ("max_active_clusters", 132),
        ("max_active_clusters", {"1": "132"}),
        ("max_active_clusters", {"1": True}),
        ("max_active_clusters", {1: 132}),
        ("driver_names", "NVIDIA H200"),
        ("driver_names", ["NVIDIA H200"]),
        ("driver_names", (1,)),
    ],
)
def test_a_fact_of_another_type_is_refused(name: str, value: Any) -> None:
    """`132`, `132.0` and `True` are three compile keys, and only one of them is ever asked for."""
    with pytest.raises(InputError, match="is not a") as caught:
        DeviceProfile("mine", "sm_90a", {name: Fact(value, "measured")})
    assert caught.value.where == f"mine.facts.{name}"


@pytest.mark.parametrize("source", ["", None, 7])
def test_a_fact_without_a_source_is_refused(source: Any) -> None:
    """Nobody can check a number that came from nowhere."""
    with pytest.raises(InputError, match="no source"):
        DeviceProfile("mine", "sm_90a", {"num_sms": Fact(132, source)})


def test_an_unknown_fact_is_refused() -> None:
    """A misspelt fact would be 'declared' and never found."""
    with pytest.raises(InputError, match="'sms' is no known fact"):
        DeviceProfile("mine", "sm_90a", {"sms": Fact(132, "measured")})


def test_an_architecture_without_its_suffix_is_refused() -> None:
    """Case C2, in a profile."""
    with pytest.raises(TargetError, match="sm_90"):
        DeviceProfile("mine", "sm_90", {})


GOOD = H200.to_json()


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "h200-sxm",
        {},
        {**GOOD, "name": 5},
        {**GOOD, "name": None},
        {**GOOD, "arch": "sm_90"},
        {**GOOD, "arch": ["sm_90a"]},
        {**GOOD, "facts": []},
        {**GOOD, "facts": {"num_sms": 132}},
        {**GOOD, "facts": {"num_sms": {"value": 132}}},
        {**GOOD, "facts": {"num_sms": {"value": [132], "source": "x"}}},
        {**GOOD, "facts": {"num_sms": {"value": 132, "source": "x", "unit": "SMs"}}},
        {**GOOD, "vendor": "NVIDIA"},
        {name: GOOD[name] for name in ("name", "facts")},
    ],
    ids=str,
)
def test_json_of_another_form_is_refused(data: Any) -> None:
    """A lockfile decides what runs; a profile in it that is half understood would be compared with the device."""
    with pytest.raises(InputError):
        DeviceProfile.from_json(data)


def through_a_pool(profile: DeviceProfile) -> DeviceProfile:
    back = pickle.loads(pickle.dumps(profile))  # noqa: S301 (what a process pool does with an argument)
    assert isinstance(back, DeviceProfile)
    return back


@pytest.mark.parametrize("trip", [copy.copy, copy.deepcopy, through_a_pool])
def test_a_profile_survives_copies_and_processes(trip: Callable[[DeviceProfile], DeviceProfile]) -> None:
    """Looking up unknown attributes in `__getattr__` easily ends in endless recursion in a half-made copy."""
    back = trip(H200)
    assert back == H200
    assert back.num_sms == 132
    with pytest.raises(UnknownFact):
        _ = back.l2_bytes


def test_a_profile_cannot_be_changed() -> None:
    """Case B9: keys were made from it."""
    changed: Any = H200
    with pytest.raises(AttributeError):
        changed.name = "other"
    with pytest.raises(AttributeError):
        changed.num_sms = 1
