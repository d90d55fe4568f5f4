"""A document for a terminal or a log: columns that line up, colour only where the caller says there is a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from kernelforge.errors import ToolchainError
from kernelforge.report.document import Document, Table, Trouble, report_document
from kernelforge.reporting import Outcome, Report

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# Fixed, so that the same report is the same text in every log; a terminal's own width is handed in.
PLAIN_WIDTH = 120

_OUTCOME_STYLES = {
    Outcome.FAILED.value: "bold red",
    Outcome.STORE_ERROR.value: "bold red",
    Outcome.MISS.value: "yellow",
    Outcome.SKIPPED.value: "yellow",
    Outcome.BUILT.value: "cyan",
    Outcome.HIT.value: "green",
    Outcome.REUSED.value: "green",
}


def render_table(report: Report, *, width: int = PLAIN_WIDTH, is_terminal: bool = False) -> str:
    """A report as text, with colours only if ``is_terminal``.

    Tables fit ``width`` characters; lines of prose are not broken, so that paths and digests can be copied.

    ``ToolchainError`` where rich, which comes with ``kernelforge[build]``, is not installed.
    """
    return render_document(report_document(report), width=width, is_terminal=is_terminal)


def render_document(document: Document, *, width: int = PLAIN_WIDTH, is_terminal: bool = False) -> str:
    """The same for any document."""
    console = _console(width, is_terminal)
    console.print(document.title, style="bold")
    for line in document.summary:
        console.print(line, soft_wrap=True)
    for table in document.tables:
        console.print()
        console.print(table.heading, style="bold", soft_wrap=True)
        console.print(_rich_table(table))
    for trouble in document.troubles:
        _print_trouble(console, trouble)
    if document.notes:
        console.print()
    for note in document.notes:
        console.print(f"note: {note}", soft_wrap=True)
    assert isinstance(console.file, io.StringIO)
    # Cells are padded to their columns; blanks at the ends of lines would only make logs differ from what people paste.
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def _console(width: int, is_terminal: bool) -> Console:
    try:
        from rich.console import Console
    except ImportError as error:
        raise ToolchainError(
            "tables are drawn with rich, which is not installed",
            hint="pip install 'kernelforge[build]', or ask for --format markdown or json",
        ) from error
    # Messages and paths are data: brackets in them are no markup, numbers in them no highlights. The environment is
    # kept out, so that COLUMNS or FORCE_COLOR do not change what a log says.
    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=is_terminal,
        color_system="standard" if is_terminal else None,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )


def _rich_table(table: Table) -> RenderableType:
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in table.columns:
        drawn.add_column(
            column.name,
            width=column.width or None,
            justify="right" if column.is_number else "left",
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*(Text(cell, style=_OUTCOME_STYLES.get(cell, "")) for cell in row))
    return drawn


def _print_trouble(console: Console, trouble: Trouble) -> None:
    console.print()
    console.print(f"failed: {trouble.heading}", style="bold red", soft_wrap=True)
    for line in trouble.lines:
        console.print(f"  {line}", soft_wrap=True)
    for line in trouble.log_tail.splitlines():
        console.print(f"  | {line}", soft_wrap=True)
