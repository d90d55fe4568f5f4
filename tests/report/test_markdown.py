from __future__ import annotations

from dataclasses import replace

from kernelforge.report.markdown import render_markdown
from kernelforge.reporting import Failure, Report
from tests.report.samples import entry, failed, missed, report


def with_failure(**changes: str) -> Report:
    known = failed(1).failure
    assert isinstance(known, Failure)
    return report(failed(1, failure=replace(known, **changes)))


def test_it_says_what_the_table_says() -> None:
    text = render_markdown(report(entry(1), missed(2)))
    assert text.startswith("### qwen3-8b: build\n")
    assert "- 2 keys, 1 hit (50%), 1 miss, 0 store errors" in text
    assert "- pack.norms:Norm on h200-sxm: 16,384 -> 40" in text
    assert "| reused | 1 | 0.25 | 25 | 0 | 0 | in the action cache |" in text
    assert text.endswith("- note: one note\n")


def test_every_row_has_as_many_cells_as_the_header() -> None:
    """A pipe or a line break in a reason must not make another cell or row."""
    text = render_markdown(report(missed(1, "a | b\nc || d"), entry(2)))
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 4
    assert {line.replace("\\|", "").count("|") for line in table} == {8}


def test_a_message_is_no_html() -> None:
    text = render_markdown(with_failure(message="<script>alert(1)</script> <b>"))
    assert "<script>" not in text.replace("\\<script>", "")
    assert "\\<b>" in text


def test_a_log_cannot_end_its_block() -> None:
    """A log that holds a fence or closes the fold stays inside."""
    text = render_markdown(with_failure(log_tail="before\n```\n````\n</details>\nafter\n"))
    inside = text.split("`````\n")[1]
    assert inside == "before\n```\n````\n</details>\nafter\n"
    assert text.rstrip().splitlines()[-3] == "</details>"


def test_a_summary_line_of_a_failure_is_escaped() -> None:
    text = render_markdown(report(failed(1, compile_key={"name": "<a href=x>"})))
    assert "<a href" not in text
    assert "&lt;a href" in text
