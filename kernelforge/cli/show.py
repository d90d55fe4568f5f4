"""Reports and other documents on stdout, drawn for what stdout is: a terminal's width and colours, or neither."""

from __future__ import annotations

import shutil
import sys

import click

from kernelforge.cli.console import print_json
from kernelforge.report.document import Document, report_document
from kernelforge.report.table import PLAIN_WIDTH, render_document
from kernelforge.reporting import Report

# Narrower than this, and the columns of numbers leave no room for words.
_LEAST_WIDTH = 100


def show_report(report: Report, *, as_json: bool) -> None:
    """What ``plan`` and ``build`` end with."""
    if as_json:
        print_json(report.to_json())
    else:
        show_document(report_document(report))


def show_document(document: Document) -> None:
    """A document as a table."""
    is_terminal = sys.stdout.isatty()
    width = max(_LEAST_WIDTH, shutil.get_terminal_size().columns) if is_terminal else PLAIN_WIDTH
    click.echo(render_document(document, width=width, is_terminal=is_terminal))
