"""Keys are dealt out to machines that do not talk to each other: each key to one of them, evenly, always alike."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kernelforge.contract import IntRange
from kernelforge.device import DeviceProfile, Fact
from kernelforge.plan import Miss, PlannedKey, make_plan, shard_numbers
from kernelforge.request import KernelRequest
from kernelforge.store.memory import MemoryStore
from kernelforge.target import Target
from tests.planned_world import kernel_project

H200 = DeviceProfile("h200", "sm_90a", {"num_sms": Fact(132, "test")})


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[PlannedKey, ...]:
    """A hundred keys, of which ten are new and the others took from 0.1 to 40 seconds."""
    with kernel_project(tmp_path_factory.mktemp("project")):
        request = KernelRequest("planned:Fill", {"width": IntRange(1, 101)})
        targets = [(H200, Target("sm_90a"))]
        plan = make_plan("test", [request], targets, store=MemoryStore(), domain="dev", lock=None, recorded={})
    seconds = random.Random(3)
    return tuple(
        key if number % 10 == 0 else replace(key, seconds_before=seconds.choice([0.1, 0.2, 1.4, 40.0]))
        for number, key in enumerate(plan.keys)
    )


@pytest.mark.parametrize("count", [1, 2, 3, 8, 100, 150])
def test_each_key_has_one_shard(keys: tuple[PlannedKey, ...], count: int) -> None:
    numbers = shard_numbers(keys, count)
    assert numbers.keys() == {key.key_digest for key in keys}
    assert set(numbers.values()) == set(range(1, min(count, len(keys)) + 1))


@pytest.mark.parametrize("count", [2, 3, 8])
def test_no_shard_takes_much_longer_than_another(keys: tuple[PlannedKey, ...], count: int) -> None:
    numbers, loads = shard_numbers(keys, count), dict.fromkeys(range(1, count + 1), 0.0)
    for key in keys:
        loads[numbers[key.key_digest]] += key.seconds_before or 0.2
    assert max(loads.values()) - min(loads.values()) <= 40.0
    assert max(loads.values()) <= 4 / 3 * max(40.0, sum(loads.values()) / count)


def test_what_the_others_have_done_meanwhile_changes_nothing(keys: tuple[PlannedKey, ...]) -> None:
    """A shard that starts later finds hits, and in another order; its share is that of the others' arithmetic."""
    blob = MemoryStore()
    assert blob.traffic.requests == 0
    later = [replace(key, decision=Miss("x") if number % 3 else key.decision) for number, key in enumerate(keys)]
    random.Random(4).shuffle(later)
    assert shard_numbers(later, 8) == shard_numbers(keys, 8)
