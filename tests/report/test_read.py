from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelforge.errors import InputError
from kernelforge.report.read import parse_report
from kernelforge.report.table import render_table
from kernelforge.reporting import Outcome, Report
from tests.report.samples import entry, failed, missed, report

SAMPLE = report(entry(1), missed(2), failed(3), entry(4, Outcome.STORE_ERROR, reason="403"))


def as_bytes(document: Any) -> bytes:
    return json.dumps(document).encode()


def read(document: Any) -> Report:
    return parse_report(as_bytes(document), where="report.json")


def test_a_report_survives_the_way_through_json() -> None:
    """The rendering of what was saved is the rendering of what was built."""
    again = read(SAMPLE.to_json())
    assert again.to_json() == SAMPLE.to_json()
    assert render_table(again) == render_table(SAMPLE)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(Outcome)), st.text(), st.floats(0, 1e6)), max_size=5))
def test_any_report_survives(entries: list[tuple[Outcome, str, float]]) -> None:
    made = report(
        *(
            entry(number, outcome, reason=reason, seconds=seconds)
            for number, (outcome, reason, seconds) in enumerate(entries)
        )
    )
    assert read(made.to_json()).to_json() == made.to_json()


def change(*path: str | int, to: Any) -> Callable[[Any], None]:
    def apply(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = to

    return apply


def remove(*path: str | int) -> Callable[[Any], None]:
    def apply(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return apply


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param(change("schema", to="kernelforge.report/2"), "kernelforge.report/2", id="another version"),
        pytest.param(change("schema", to="kernelforge.lock/1"), "kernelforge.lock/1", id="another document"),
        pytest.param(remove("seconds", "saved"), "seconds: saved is missing", id="missing member"),
        pytest.param(remove("entries", 0, "devices"), "devices is missing", id="missing member of an entry"),
        pytest.param(change("surprise", to=1), "surprise: no such member", id="unknown member"),
        pytest.param(change("entries", 1, "surprise", to=1), "surprise: no such member", id="unknown in an entry"),
        pytest.param(change("totals", "surprise", to=1), "surprise: no such member", id="unknown total"),
        pytest.param(change("requests", to=True), "requests: True is not a count", id="boolean for a count"),
        pytest.param(change("requests", to="92"), "'92' is not a count", id="string for a count"),
        pytest.param(change("requests", to=-1), "-1 is not a count", id="negative count"),
        pytest.param(change("seconds", "wall", to="fast"), "'fast' is not a number", id="string for a number"),
        pytest.param(change("entries", 0, "outcome", to="lost"), "'lost' is not one of hit", id="unknown outcome"),
        pytest.param(change("entries", 0, "outcome", to=["hit"]), "is not one of hit", id="list for an outcome"),
        pytest.param(change("entries", 2, "failure", "phase", to=None), "None is not a string", id="failure"),
        pytest.param(change("entries", to={}), "{} is not a list", id="object for a list"),
        pytest.param(change("packs", to=[]), "[] is not an object", id="list for an object"),
        pytest.param(change("totals", to=[]), "totals: [] is not an object", id="list for totals"),
        pytest.param(change("totals", "failed", to=0), "failed is 0, the entries come to 1", id="contradiction"),
        pytest.param(change("totals", "misses", to=1), "do not come to 4 keys", id="sum of the plan's words"),
        pytest.param(change("totals", "keys", to=5), "keys is 5, the entries come to 4", id="entries lost"),
    ],
)
def test_anything_else_is_refused_with_its_place(damage: Callable[[Any], None], says: str) -> None:
    document = SAMPLE.to_json()
    damage(document)
    with pytest.raises(InputError) as caught:
        read(document)
    assert says in str(caught.value)
    assert caught.value.where.startswith("report.json")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"{", b"[]", b"null", b'"kernelforge.report/1"', b"[" * 100_000])
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        parse_report(data, where="report.json")


def test_numbers_that_json_should_not_have_are_refused() -> None:
    document = json.dumps(SAMPLE.to_json()).replace('"wall": 3.217', '"wall": NaN')
    with pytest.raises(InputError, match="nan is not a number"):
        parse_report(document.encode(), where="report.json")
