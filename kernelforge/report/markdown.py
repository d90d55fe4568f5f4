"""A document for CI summaries and pull requests: GitHub's Markdown.

Everything that came from a kernel or a log is data and is escaped, so that no message can end a table or a fold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelforge.report.document import Document, Table, Trouble, report_document
from kernelforge.reporting import Report

_SPECIAL = re.compile(r"([\\`*_\[\]<#|~])")
_SHORTEST_FENCE = 3


def render_markdown(report: Report) -> str:
    """A report as Markdown, ending in a newline."""
    return render_document(report_document(report))


def render_document(document: Document) -> str:
    """The same for any document."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield f"### {_escaped(document.title)}"
    yield ""
    for line in document.summary:
        yield f"- {_escaped(line)}"
    for table in document.tables:
        yield from _table(table)
    for trouble in document.troubles:
        yield from _trouble(trouble)
    if document.notes:
        yield ""
    for note in document.notes:
        yield f"- note: {_escaped(note)}"


def _table(table: Table) -> Iterator[str]:
    yield ""
    yield f"**{_escaped(table.heading)}**"
    yield ""
    yield _row(column.name for column in table.columns)
    yield _row("---:" if column.is_number else "---" for column in table.columns)
    for row in table.rows:
        yield _row(_escaped(cell) for cell in row)


def _trouble(trouble: Trouble) -> Iterator[str]:
    yield ""
    yield f"<details><summary>failed: {_escaped_html(trouble.heading)}</summary>"
    yield ""
    for line in trouble.lines:
        yield f"- {_escaped(line)}"
    if trouble.log_tail:
        fence = _fence(trouble.log_tail)
        yield ""
        yield fence
        yield trouble.log_tail.rstrip("\n")
        yield fence
    yield ""
    yield "</details>"


def _row(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _escaped_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fence(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(_SHORTEST_FENCE, longest + 1)
