"""How commands talk: data on stdout, words for people on stderr, colour only on a terminal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from kernelforge.errors import KernelForgeError, ManifestError
from kernelforge.reporting import Outcome, Report


def say(text: str) -> None:
    """A line for people, on stderr."""
    click.echo(text, err=True)


def say_error(error: KernelForgeError) -> None:
    """What is wrong, where, and what to do next; every problem of a manifest on a line of its own."""
    label = click.style("error:", fg="red", bold=True)
    if isinstance(error, ManifestError):
        for problem in error.problems:
            say(f"{label} {problem.file}:{problem.line}: {problem.what}\n  hint: {problem.hint}")
        return
    where = f"{error.where}: " if error.where else ""
    say(f"{label} {where}{error.problem}\n  hint: {error.hint}")


def say_store_troubles(report: Report) -> None:
    """Why some keys have no answer; each reason once."""
    reasons = Counter(entry.reason for entry in report.entries if entry.outcome is Outcome.STORE_ERROR)
    label = click.style("error:", fg="red", bold=True)
    for reason, keys in reasons.items():
        say(f"{label} the store gave no answer about {keys} keys: {reason}")


def say_conflicts(report: Report) -> None:
    """That results of equal inputs differ, which means that something decides them that no key knows of."""
    if report.conflicts:
        label = click.style("conflict:", fg="red", bold=True)
        what = "result differs" if report.conflicts == 1 else "results differ"
        say(f"{label} {report.conflicts} {what} from what was published for the same inputs; the first stay")
        say("  hint: the notes of the report say which; both are in the store, under conflicts/ of the domain")


def say_forbidden(violations: Sequence[str]) -> None:
    """What a policy forbids; nothing if that is nothing."""
    label = click.style("forbidden:", fg="red", bold=True)
    for violation in violations:
        say(f"{label} {violation}")
    if violations:
        say("  hint: no lockfile was written; change the kernel or its dispatch, or --fail-on and --max-registers")


def print_json(document: Any) -> None:
    """A document on stdout."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
