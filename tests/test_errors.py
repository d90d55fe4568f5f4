"""Errors cross processes and end in front of people: each says what, where and what next, and survives the trip."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from kernelforge import errors
from kernelforge.errors import KernelForgeError, LoadError, ManifestError, Problem, StoreError, UnknownFact

PROBLEMS = (Problem("m.yaml", 3, "no such key", "did you mean x?"), Problem("d.yaml", 9, "num_sms is -1", "count them"))


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, KernelForgeError)]


def make(kind: type[KernelForgeError]) -> KernelForgeError:
    if issubclass(kind, ManifestError):
        return kind(PROBLEMS)
    more = {"fact": "num_sms"} if issubclass(kind, UnknownFact) else {}
    return kind("it is broken", hint="mend it", where="a.py:7", **more)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_people_see(kind: type[KernelForgeError]) -> None:
    """An error that prints its problem without the place or the next step costs somebody an hour."""
    error = make(kind)
    assert str(error) == f"{error.where}: {error.problem} (hint: {error.hint})"
    assert error.where
    assert error.hint


def test_no_place_means_no_colon() -> None:
    assert str(StoreError("it is broken", hint="mend it")) == "it is broken (hint: mend it)"


def test_every_kind_is_in_the_tree_that_the_module_shows() -> None:
    """The docstring is what callers branch by; an error that it lacks would be caught by nobody."""
    listed = set((errors.__doc__ or "").split())
    assert {kind.__name__ for kind in KINDS} <= listed


@pytest.mark.parametrize(
    ("base", "exit_code"), [(errors.InputError, 2), (StoreError, 3), (errors.ToolchainError, 3), (LoadError, 3)]
)
def test_exit_codes_by_family(base: type[KernelForgeError], exit_code: int) -> None:
    """CI retries store trouble and does not retry bad input: a subclass must not change families."""
    assert {kind.exit_code for kind in KINDS if issubclass(kind, base)} == {exit_code}


def through_a_pool(error: KernelForgeError) -> KernelForgeError:
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 (what a process pool does with an error)
    assert isinstance(back, KernelForgeError)
    return back


@pytest.mark.parametrize("trip", [copy.copy, copy.deepcopy, through_a_pool])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_survives_copies_and_processes(
    kind: type[KernelForgeError], trip: Callable[[KernelForgeError], KernelForgeError]
) -> None:
    """An exception with keyword arguments breaks a process pool: unpickling calls its class without them."""
    error = make(kind)
    back = trip(error)
    assert type(back) is kind
    assert (str(back), repr(back), back.__dict__) == (str(error), repr(error), error.__dict__)


@pytest.mark.parametrize(
    ("problems", "text"),
    [
        (PROBLEMS[:1], "m.yaml:3: 1 problem, the first is: no such key (hint: did you mean x?)"),
        (PROBLEMS, "m.yaml:3: 2 problems, the first is: no such key (hint: did you mean x?)"),
    ],
)
def test_a_manifest_error_holds_all_problems(problems: tuple[Problem, ...], text: str) -> None:
    error = ManifestError(list(problems))
    assert str(error) == text
    assert error.problems == problems


def test_a_problem_reads_like_a_compilers() -> None:
    """Editors and CI services turn `file:line: words` into links."""
    assert str(PROBLEMS[1]) == "d.yaml:9: num_sms is -1 (hint: count them)"
