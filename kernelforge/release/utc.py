"""Instants as signed documents spell them: UTC to the second, ``2027-01-31T09:30:00Z``, and nothing else.

Knows no clock: who needs the time is given it, so that a test decides what day it is.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

_SPELLING = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def utc_text(instant: datetime) -> str:
    """The spelling of an instant that knows its time zone; fractions of a second are dropped."""
    # Not strftime: its %Y has no leading zeros on some systems.
    return instant.astimezone(timezone.utc).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def read_utc(text: object) -> datetime:
    """The inverse of ``utc_text``; ``ValueError`` for any other spelling or type."""
    if not isinstance(text, str) or not _SPELLING.fullmatch(text):
        raise ValueError(f"{text!r} is no time such as 2027-01-31T09:30:00Z")
    return datetime.fromisoformat(text[:-1]).replace(tzinfo=timezone.utc)


def whole_seconds(instant: datetime) -> datetime:
    """The instant as it is read back from its spelling."""
    return read_utc(utc_text(instant))
