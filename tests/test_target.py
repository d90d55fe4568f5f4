"""Architectures have one spelling each: a plain `sm_90` silently means code without what `sm_90a` kernels need."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelforge.errors import TargetError
from kernelforge.target import ARCHITECTURES, CUDA_FLAVOURS, HOSTS, Target, arch_runs_on, check_arch, compute_capability

TARGETS = [Target(*parts) for parts in itertools.product(ARCHITECTURES, HOSTS, CUDA_FLAVOURS)]


@pytest.mark.parametrize(
    ("arch", "meant"),
    [
        ("sm_90", "sm_90a"),
        ("9.0", "sm_90a"),
        (90, "sm_90a"),
        (9.0, "sm_90a"),
        ("SM_90A", "sm_90a"),
        ("sm90a", "sm_90a"),
        ("sm_90a ", "sm_90a"),
        ("compute_90a", "sm_90a"),
        ("sm_100", "sm_100a"),
        ("sm_103", "sm_103a"),
        ("10.3", "sm_103a"),
        ("sm_103f", "sm_103a"),
        ("sm_120", "sm_120a"),
        ("sm_80a", "sm_80"),
    ],
)
def test_a_near_miss_is_refused_with_the_right_spelling(arch: Any, meant: str) -> None:
    """Case C2: nothing is normalised, because the plain architecture is one that exists and runs slowly or not."""
    with pytest.raises(TargetError) as caught:
        check_arch(arch)
    assert caught.value.hint == f"did you mean {meant}?"
    assert repr(arch) in caught.value.problem


@pytest.mark.parametrize("arch", ["sm_999", "h200", "", None, True, [], {"sm_90a"}, b"sm_90a"])
def test_what_is_no_architecture_is_refused(arch: Any) -> None:
    """Case C2: an unknown one reaches the compiler as a bare KeyError."""
    with pytest.raises(TargetError, match="is not a known architecture"):
        Target(arch)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_known_architectures_are_taken_as_they_are(arch: str) -> None:
    assert Target(arch).arch == check_arch(arch) == arch


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_text_round_trip(target: Target) -> None:
    assert Target.parse(str(target)) == target


def test_every_part_tells_targets_apart() -> None:
    assert len({str(target) for target in TARGETS}) == len(set(TARGETS)) == len(TARGETS)


@given(st.text(alphabet="sm_90af/x86-linuxgcu13", max_size=40))
def test_other_text_is_no_target(text: str) -> None:
    if text not in map(str, TARGETS):
        with pytest.raises(TargetError):
            Target.parse(text)


@pytest.mark.parametrize("parts", [("sm_90a", "linux"), ("sm_90a", "x86_64-linux-gnu", "cuda13"), ("sm_90a", None)])
def test_unknown_hosts_and_flavours_list_what_there_is(parts: tuple[Any, ...]) -> None:
    with pytest.raises(TargetError) as caught:
        Target(*parts)
    assert any(known in caught.value.hint for known in (HOSTS[0], CUDA_FLAVOURS[0]))


@pytest.mark.parametrize(
    ("arch", "capability"), [("sm_80", (8, 0)), ("sm_89", (8, 9)), ("sm_90a", (9, 0)), ("sm_103a", (10, 3))]
)
def test_the_last_digit_is_the_minor_version(arch: str, capability: tuple[int, int]) -> None:
    assert compute_capability(arch) == capability


@pytest.mark.parametrize(
    ("arch", "runs_on", "not_on"),
    [
        ("sm_80", [(8, 0), (8, 6), (8, 9)], [(7, 5), (9, 0), (10, 0)]),
        ("sm_86", [(8, 6), (8, 9)], [(8, 0), (9, 0)]),
        ("sm_89", [(8, 9)], [(8, 0), (8, 6), (9, 0)]),
        ("sm_90a", [(9, 0)], [(8, 9), (10, 0)]),
        ("sm_100a", [(10, 0)], [(9, 0), (10, 3), (12, 0)]),
        ("sm_100f", [(10, 0), (10, 3)], [(9, 0), (11, 0), (12, 0)]),
        ("sm_103a", [(10, 3)], [(10, 0), (12, 0)]),
        ("sm_120a", [(12, 0)], [(12, 1), (10, 0)]),
    ],
)
def test_which_devices_an_image_runs_on(
    arch: str, runs_on: list[tuple[int, int]], not_on: list[tuple[int, int]]
) -> None:
    """Case A1: code for sm_120a on an sm_121 device gave garbled text; `a` is one capability, `f` its family."""
    assert [capability for capability in runs_on + not_on if arch_runs_on(arch, capability)] == runs_on
