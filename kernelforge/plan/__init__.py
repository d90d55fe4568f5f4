"""Decides what must be compiled: every key of a deployment meets the lockfile and the action cache, and gets a reason.

Data in, data out: no compiler, no process, no write. ``make`` finds the keys, ``decide`` asks lockfile and store about
them, ``reasons`` says why a key is missing, ``values`` is what comes out; ``shards`` deals keys out to machines.
"""

from kernelforge.plan.make import make_plan
from kernelforge.plan.shards import Shard, shard_numbers
from kernelforge.plan.values import Decision, Hit, KernelSources, Miss, Plan, PlannedKey, StoreTrouble

__all__ = [
    "Decision",
    "Hit",
    "KernelSources",
    "Miss",
    "Plan",
    "PlannedKey",
    "Shard",
    "StoreTrouble",
    "make_plan",
    "shard_numbers",
]
