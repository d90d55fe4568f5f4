"""The report's document: what CI and dashboards read, so its members and its sums are fixed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernelforge.reporting import Expansion, Failure, Outcome, Report, ReportEntry

FAILURE = Failure(
    "compile", "ValueError: no", source="k.py:3", signal="SIGABRT", log_tail="...", limit="memory", log="sha256:00"
)


def entry(outcome: Outcome, **more: Any) -> ReportEntry:
    devices, digest = ("h200", "h100"), "sha256:" + "0" * 64
    return ReportEntry("m:K", {"tile": 4}, "sm_90a/x86_64-linux-gnu/cu13", devices, digest, outcome, "because", **more)


REPORT = Report(
    name="qwen3-8b",
    command="build",
    entries=(
        entry(
            Outcome.REUSED, seconds=1.5, registers=40, shared_memory_bytes=0, spill_bytes=8, object_digest="sha256:1"
        ),
        entry(Outcome.BUILT, seconds=0.25),
        entry(Outcome.FAILED, failure=FAILURE),
        entry(Outcome.STORE_ERROR),
        entry(Outcome.SKIPPED),
    ),
    hits=1,
    misses=3,
    store_errors=1,
    expansions=(Expansion("m:K", "h200", 16384, 40),),
    wall_seconds=1.23456,
    compile_cpu_seconds=0.25,
    saved_seconds=1.5,
    workers_started=2,
    bytes_read=10,
    bytes_written=20,
    requests=3,
    lockfile="x.lock.json",
    lockfile_digest="sha256:2",
    packs={"h200": "sha256:3"},
    notes=("one",),
)


def test_the_document() -> None:
    """Members that go, or change their form, break every pipeline that reads them: schema 1 stays as it is."""
    document = REPORT.to_json()
    assert {name: value for name, value in document.items() if name != "entries"} == {
        "schema": "kernelforge.report/1",
        "name": "qwen3-8b",
        "command": "build",
        "totals": {
            "keys": 5,
            "hits": 1,
            "misses": 3,
            "store_errors": 1,
            "conflicts": 0,
            "built": 1,
            "reused": 1,
            "failed": 1,
            "skipped": 1,
        },
        "seconds": {"wall": 1.235, "compile_cpu": 0.25, "saved": 1.5},
        "bytes": {"read": 10, "written": 20},
        "requests": 3,
        "workers_started": 2,
        "expansions": [{"kernel": "m:K", "device": "h200", "points": 16384, "keys": 40}],
        "lockfile": {"path": "x.lock.json", "digest": "sha256:2"},
        "packs": {"h200": "sha256:3"},
        "notes": ["one"],
    }
    assert document["entries"][0] == {
        "kernel": "m:K",
        "compile_key": {"tile": 4},
        "target": "sm_90a/x86_64-linux-gnu/cu13",
        "devices": ["h200", "h100"],
        "key_digest": "sha256:" + "0" * 64,
        "outcome": "reused",
        "reason": "because",
        "object_digest": "sha256:1",
        "seconds": 1.5,
        "registers": 40,
        "shared_memory_bytes": 0,
        "spill_bytes": 8,
        "failure": None,
    }


def test_every_key_is_counted_once() -> None:
    """`hits + misses + store_errors == keys`, and what became of them adds up too: no key is lost in the sums."""
    totals = REPORT.to_json()["totals"]
    assert totals["hits"] + totals["misses"] + totals["store_errors"] == totals["keys"]
    became = ("built", "reused", "failed", "skipped", "store_errors")
    assert sum(totals[name] for name in became) == totals["keys"]


def test_a_failure_is_in_the_document_whole() -> None:
    assert REPORT.to_json()["entries"][2]["failure"] == {
        "phase": "compile",
        "message": "ValueError: no",
        "source": "k.py:3",
        "signal": "SIGABRT",
        "log_tail": "...",
        "limit": "memory",
        "log": "sha256:00",
    }


def test_it_is_plain_json() -> None:
    """Tuples and enums would come back as something else, or not go out at all."""
    document = REPORT.to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


@pytest.mark.parametrize("outcome", Outcome)
def test_counts_are_by_outcome(outcome: Outcome) -> None:
    """A store error among the misses would hide an outage (case F2)."""
    alone = Report("x", "plan", (entry(outcome),), hits=0, misses=1, store_errors=0)
    assert [other for other in Outcome if alone.count(other)] == [outcome]
    assert alone.to_json()["entries"][0]["outcome"] == outcome.value
