from __future__ import annotations

import pytest

from kernelforge.report.units import bytes_text, count_text, range_text, seconds_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_900, "99.9 kB"),
        (870_123, "870 kB"),
        (999_960, "1.0 MB"),
        (2_100_000, "2.1 MB"),
        (5_000_000_000, "5.0 GB"),
        (5_000_000_000_000, "5,000 GB"),
    ],
)
def test_bytes(size_bytes: int, text: str) -> None:
    assert bytes_text(size_bytes) == text


def test_rounding_never_shows_a_thousand_of_a_smaller_unit() -> None:
    for power in (3, 6, 9):
        for below in (1, 49, 51):
            number, unit = bytes_text(10**power - below * 10 ** (power - 3)).split()
            assert float(number.replace(",", "")) < 1000 or unit == "GB"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.00 s"), (0.414, "0.41 s"), (72.46, "72.5 s"), (5000, "5,000.0 s")]
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "word", "text"),
    [
        (1, "key", "1 key"),
        (0, "key", "0 keys"),
        (16384, "point", "16,384 points"),
        (2, "miss", "2 misses"),
        (1, "miss", "1 miss"),
        (2, "entry", "2 entries"),
        (2, "worker process", "2 worker processes"),
    ],
)
def test_counts(count: int, word: str, text: str) -> None:
    assert count_text(count, word) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [([], "-"), ([None], "-"), ([24], "24"), ([40, 24, None], "24-40"), ([0, 0], "0"), ([0, 232448], "0-232,448")],
)
def test_ranges(values: list[int | None], text: str) -> None:
    assert range_text(values) == text
