"""Numbers as people read them: one spelling of bytes, seconds and counts in every rendering."""

from __future__ import annotations

from collections.abc import Iterable

_BYTES_PER_UNIT = 1000
_BYTE_UNITS = ("B", "kB", "MB", "GB")


def bytes_text(size_bytes: float) -> str:
    """``870 kB``: decimal units, three digits."""
    unit = 0
    # Rounding comes first: 999,960 bytes are 1 MB, not 1e+03 kB.
    while unit + 1 < len(_BYTE_UNITS) and round(size_bytes, 1 if unit else 0) >= _BYTES_PER_UNIT:
        size_bytes /= _BYTES_PER_UNIT
        unit += 1
    digits = 1 if unit and size_bytes < 100 else 0
    return f"{size_bytes:,.{digits}f} {_BYTE_UNITS[unit]}"


def seconds_text(seconds: float) -> str:
    """``0.41 s``; one digit after the point from ten seconds on."""
    return f"{seconds:,.2f} s" if seconds < 10 else f"{seconds:,.1f} s"


def count_text(count: int, singular: str) -> str:
    """``1 key``, ``1,024 keys``; ``y`` and sibilants are heeded (``2 entries``, ``2 misses``)."""
    if count == 1:
        return f"1 {singular}"
    if singular.endswith("s"):
        return f"{count:,} {singular}es"
    if singular.endswith("y") and not singular.endswith("ey"):
        return f"{count:,} {singular[:-1]}ies"
    return f"{count:,} {singular}s"


def range_text(values: Iterable[int | None]) -> str:
    """``24``, ``24-40``, or ``-`` where nothing is known."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    least, most = min(known), max(known)
    return f"{least:,}" if least == most else f"{least:,}-{most:,}"
