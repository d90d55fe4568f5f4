from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from kernelforge.report.table import PLAIN_WIDTH, render_table
from kernelforge.reporting import Outcome
from tests.report.samples import CHANGED_COMPILER, entry, failed, missed, report


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_totals_and_traffic_are_told() -> None:
    text = render_table(report(entry(1), entry(2), missed(3), entry(4, Outcome.BUILT)))
    assert "qwen3-8b: build" in text
    assert "4 keys, 2 hits (50%), 2 misses, 0 store errors" in text
    assert "built 1, reused 2, failed 0, skipped 0" in text
    assert "wall 3.22 s, compile CPU 5.25 s, saved 72.5 s; 92 requests, 1.2 MB read, 400 B written" in text
    assert "2 worker processes started" in text
    assert "lockfile registry/releases/qwen3-8b.lock.json: sha256:" + "b" * 64 in text
    assert "note: one note" in text


def test_points_and_keys_are_told_before_anything_else_about_a_kernel() -> None:
    """Case H3: 16,384 points that fall into 40 keys must be visible as 16,384 -> 40."""
    assert "pack.norms:Norm on h200-sxm: 16,384 -> 40" in render_table(report(entry(1)))


def test_a_miss_has_its_reason_and_how_many_have_it() -> None:
    """Case H1: a changed compiler reads as one line: miss, 40, old version -> new version."""
    text = render_table(report(*(missed(number) for number in range(40))))
    assert ["miss", "40", "0.00", "-", "-", "-", *CHANGED_COMPILER.split()[:3]] in [row[:9] for row in rows(text)]
    assert "4.7.1 -> 4.8.0" in text


def test_registers_spills_and_shared_memory_are_ranges() -> None:
    text = render_table(report(entry(0, registers=24), entry(1, registers=168, spill_bytes=16)))
    assert ["reused", "2", "0.50", "24-168", "0-16", "0"] in [row[:6] for row in rows(text)]


def test_a_failure_is_told_in_full() -> None:
    text = render_table(report(failed(7)))
    assert "failed: pack.norms:Norm (width=7, dtype='bfloat16') for sm_90a/x86_64-linux-gnu/cu13" in text
    assert "compile: ValueError: no such width" in text
    assert "source: /src/norms.py:12" in text
    assert "  | first line\n  | last line" in text


def test_a_crash_names_its_signal() -> None:
    crash = failed(7)
    assert crash.failure is not None
    assert "signal: SIGSEGV" in render_table(report(replace(crash, failure=replace(crash.failure, signal="SIGSEGV"))))


def test_brackets_in_messages_are_no_markup() -> None:
    """A message such as '[red]x[/]' or 'list[int]' must come out as it went in."""
    failure = failed(1).failure
    assert failure is not None
    text = render_table(report(failed(1, failure=replace(failure, message="list[int] is [bold]not[/bold] :smile:"))))
    assert "list[int] is [bold]not[/bold] :smile:" in text


def test_text_for_a_log_has_no_escapes_and_fits() -> None:
    text = render_table(
        report(*(missed(number, f"{CHANGED_COMPILER} {'and so on ' * 30}{number}") for number in range(9)))
    )
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("wall")) <= PLAIN_WIDTH
    assert all(line == line.rstrip() for line in text.splitlines())


def test_text_for_a_log_does_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = render_table(report(missed(1)))
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert render_table(report(missed(1))) == before


def test_digests_and_paths_are_never_broken() -> None:
    """They are there to be copied, however narrow the terminal is."""
    text = render_table(report(entry(1)), width=60)
    assert "sha256:" + "b" * 64 in text
    assert "sha256:" + "c" * 64 in text


def test_a_terminal_gets_colours() -> None:
    assert "\x1b[" in render_table(report(failed(1)), is_terminal=True)


def test_a_report_without_entries_is_no_division_by_zero() -> None:
    assert "0 keys, 0 hits, 0 misses, 0 store errors" in render_table(report())


def test_without_rich_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['rich'] = None\n"
        "from kernelforge.errors import ToolchainError\n"
        "from kernelforge.report.table import render_table\n"
        "from tests.report.samples import entry, report\n"
        "try:\n    render_table(report(entry(1)))\n"
        "except ToolchainError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "rich" in done.stdout
    assert "kernelforge[build]" in done.stdout
