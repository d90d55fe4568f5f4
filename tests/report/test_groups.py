from __future__ import annotations

from kernelforge.report.groups import REASONS_SHOWN, group_entries
from kernelforge.reporting import Outcome
from tests.report.samples import CHANGED_COMPILER, entry, failed, missed, report


def test_equal_fates_are_one_line_with_a_count() -> None:
    """560 keys that miss for one reason must not be 560 lines."""
    (group,) = group_entries(report(*(missed(number) for number in range(560))))
    (fate,) = group.fates
    assert (fate.outcome, fate.reason, len(fate.entries)) == (Outcome.MISS, CHANGED_COMPILER, 560)


def test_kernels_and_targets_are_kept_apart() -> None:
    other = "sm_100a/x86_64-linux-gnu/cu13"
    groups = group_entries(
        report(entry(1), entry(1, target=other, devices=("b200",)), entry(1, kernel="pack.norms:Other"))
    )
    assert [(group.kernel, group.target, group.devices) for group in groups] == [
        ("pack.norms:Norm", other, ("b200",)),
        ("pack.norms:Norm", entry(1).target, ("h200-sxm",)),
        ("pack.norms:Other", entry(1).target, ("h200-sxm",)),
    ]


def test_outcomes_and_reasons_are_kept_apart_the_most_frequent_first() -> None:
    entries = [missed(1, "rare"), missed(2, "often"), missed(3, "often"), entry(4), failed(5)]
    (group,) = group_entries(report(*entries))
    assert [(fate.outcome.value, fate.reason, len(fate.entries)) for fate in group.fates] == [
        ("miss", "often", 2),
        ("miss", "rare", 1),
        ("reused", "in the action cache", 1),
        ("failed", "in the action cache", 1),
    ]


def test_reasons_that_name_single_keys_do_not_flood_the_table() -> None:
    """Every entry is still counted exactly once."""
    (group,) = group_entries(report(*(missed(number, f"new key {number}") for number in range(100))))
    assert len(group.fates) == REASONS_SHOWN + 1
    assert group.fates[-1].reason == "95 other reasons, each in the JSON report"
    assert sum(len(fate.entries) for fate in group.fates) == 100


def test_one_reason_too_many_is_shown_rather_than_counted() -> None:
    entries = [missed(number, f"new key {number}") for number in range(REASONS_SHOWN + 1)]
    (group,) = group_entries(report(*entries))
    assert {fate.reason for fate in group.fates} == {entry.reason for entry in entries}


def test_seconds_of_a_fate_are_those_of_all_its_entries() -> None:
    (group,) = group_entries(report(entry(1, seconds=1.5), entry(2, seconds=2.25)))
    assert group.fates[0].seconds == 3.75
