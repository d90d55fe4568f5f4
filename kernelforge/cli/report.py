"""``kernelforge report``: show again what a build or plan reported, or what the local lockfile holds."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click.core import ParameterSource

from kernelforge.cli.console import print_json
from kernelforge.cli.lockfiles import read_lockfile
from kernelforge.cli.options import json_option, lock_option
from kernelforge.cli.show import show_document
from kernelforge.errors import InputError, UsageError
from kernelforge.release.facts import facts_path, read_facts
from kernelforge.report.document import Document, report_document
from kernelforge.report.lock_summary import LockSummary, lock_document, summarise_lockfile
from kernelforge.report.markdown import render_document
from kernelforge.report.read import SIZE_LIMIT_BYTES, parse_report
from kernelforge.reporting import Report

_RELEASES = Path("registry", "releases")
_FORMATS = ("table", "markdown", "json")


@click.command()
@click.argument("report_file", metavar="[REPORT.json|-]", type=click.Path(path_type=Path), required=False)
@click.option("--format", "form", type=click.Choice(_FORMATS), default=_FORMATS[0], show_default=True, help="Form.")
@json_option
@lock_option
@click.pass_context
def command(context: click.Context, report_file: Path | None, form: str, as_json: bool, lock_path: Path | None) -> int:
    """Show a saved report, or what is locked.

    A report is what a command printed with --json ('-' reads stdin). Without one, the local lockfile is summed up.

    \b
    Examples:
      kernelforge build deployment.yaml --json > report.json; kernelforge report report.json
      kernelforge report report.json --format markdown >> "$GITHUB_STEP_SUMMARY"
      kernelforge report --lock registry/releases/qwen3-8b.lock.json
    """
    if report_file is None:
        summary = _summary(lock_path or _only_lockfile())
        _show(summary, lock_document(summary), "json" if as_json else form)
        return 0
    if context.get_parameter_source("lock_path") is ParameterSource.COMMANDLINE:
        raise UsageError("a report and --lock are two different questions", hint="give one of them")
    report = parse_report(_read(report_file), where=str(report_file))
    _show(report, report_document(report), "json" if as_json else form)
    return 0


def _show(value: Report | LockSummary, document: Document, form: str) -> None:
    if form == "json":
        print_json(value.to_json())
    elif form == "markdown":
        click.echo(render_document(document), nl=False)
    else:
        show_document(document)


def _summary(path: Path) -> LockSummary:
    return summarise_lockfile(read_lockfile(path), read_facts(facts_path(path)), path=str(path))


def _only_lockfile() -> Path:
    """The lockfile that is meant when none is named: the only one there is."""
    found = sorted(_RELEASES.glob("*.lock.json"))
    if len(found) == 1:
        return found[0]
    where = str(_RELEASES)
    if not found:
        hint = "run 'kernelforge build MANIFEST' first, or give a report that was saved from --json"
        raise UsageError("there is no lockfile here", hint=hint, where=where)
    names = ", ".join(path.name for path in found)
    raise UsageError(f"there are {len(found)} lockfiles: {names}", hint="choose one with --lock", where=where)


def _read(path: Path) -> bytes:
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read(SIZE_LIMIT_BYTES + 1)
        with path.open("rb") as file:
            return file.read(SIZE_LIMIT_BYTES + 1)
    except OSError as error:
        problem = f"the report cannot be read: {error.strerror or error}"
        raise InputError(problem, hint="check the path", where=str(path)) from error
