"""Carries out a plan: misses are compiled and published as they come, then every device profile gets its pack.

One failing kernel costs its own entries: everything else is built and kept. What was published is a hit of the next
build, so an interrupted build goes on where it was. An object that the plan counted on and that cannot be had when it
is to be linked is compiled again.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelforge.builder.cut_off import IR_DIGEST, earlier_records
from kernelforge.builder.job import CUBIN_FILE, LOG_FILE, OBJECT_FILE, CompileJob, Finished, Limits, SentKey, Setup
from kernelforge.builder.packs import CONFLICT, PackMaker
from kernelforge.builder.pool import Pool
from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.lockfile import LockedPack
from kernelforge.plan import Hit, Miss, Plan, PlannedKey, Shard, StoreTrouble, shard_numbers
from kernelforge.reporting import Failure, Outcome
from kernelforge.store import marker
from kernelforge.store.actions import ActionCache, BuildRecord, PutOutcome
from kernelforge.store.announcements import announce
from kernelforge.store.blobs import put_blob
from kernelforge.store.faults import Fault
from kernelforge.store.interface import PruneStore
from kernelforge.target import Target

logger = logging.getLogger(__name__)

_LOG_LIMIT_BYTES = 4 << 20


@dataclass(frozen=True)
class BuildOptions:
    """``workers``: compiles at a time. ``limits`` of each of them. ``shard``: the part of the keys to compile."""

    workers: int
    limits: Limits
    sys_path: tuple[str, ...]
    shard: Shard | None = None


@dataclass(frozen=True)
class BuiltKey:
    """What became of one planned key. ``object`` is absent exactly when the outcome is no object."""

    planned: PlannedKey
    outcome: Outcome
    reason: str
    object: Descriptor | None
    facts: Mapping[str, Any]
    seconds: float
    failure: Failure | None = None


@dataclass(frozen=True)
class BuildResult:
    """``packs`` is empty unless every key has an object, and for a shard: an incomplete release must not look like one.

    ``conflicts``: how many results were other than what somebody else had published for the same inputs. One key whose
    cubin alone varies is only noted.
    """

    keys: tuple[BuiltKey, ...]
    packs: Mapping[str, LockedPack]
    processes_started: int
    notes: tuple[str, ...]
    conflicts: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether every key has an object, and every device its pack."""
        return bool(self.packs) and all(key.object is not None for key in self.keys)


def build(
    plan: Plan,
    *,
    store: PruneStore,
    domain: str,
    options: BuildOptions,
    on_progress: Callable[[BuiltKey], None],
) -> BuildResult:
    """Compile the plan's misses, publish objects and records, link packs.

    ``on_progress`` is called for every key once its end is known, and again for one that is compiled after all. Raises
    ``ToolchainError`` when nothing can be linked and ``StoreError`` when results cannot be stored; a kernel that fails
    raises nothing.
    """
    misses = plan.decided(Miss)
    hits = [key.decision.object for key in plan.keys if isinstance(key.decision, Hit)]
    if misses:
        marker.claim(store)
    if misses and hits:
        # Compiling may take an hour, and nothing else keeps what is reused from garbage collection for so long.
        announce(store, locks=(), blobs=[blob.stored_digest for blob in hits])
    shares = {} if options.shard is None else shard_numbers(plan.keys, options.shard.count)
    ours = [key for key in misses if options.shard is None or shares[key.key_digest] == options.shard.number]
    others = [key for key in misses if options.shard is not None and shares[key.key_digest] != options.shard.number]
    cache = ActionCache(store, domain)
    builder = _Builder(plan, store, cache, options, on_progress)
    packs = PackMaker(store, cache, plan.packs, plan.damaged)
    with _scratch_folder() as folder:
        keys = [*builder.reuse(), *builder.leave(others, shares), *builder.compile(ours, folder)]
        if options.shard is None:  # else the packs are made once, by whoever joins the shards
            keys = builder.finish(keys, packs, folder)
        made = packs.made if all(key.object is not None for key in keys) else {}
    notes = (*builder.notes, *packs.notes)
    return BuildResult(tuple(keys), made, builder.processes_started, notes, builder.conflicts + len(packs.notes))


@contextmanager
def _scratch_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kernelforge-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Builder:
    def __init__(
        self,
        plan: Plan,
        store: PruneStore,
        cache: ActionCache,
        options: BuildOptions,
        on_progress: Callable[[BuiltKey], None],
    ) -> None:
        self._plan = plan
        self._store = store
        self._cache = cache
        self._options = options
        self._on_progress = on_progress
        self.processes_started = 0
        self.notes: list[str] = []
        self.conflicts = 0

    def reuse(self) -> Iterator[BuiltKey]:
        """The keys that need no compile: hits, and those about which the store gave no answer."""
        for planned in self._plan.keys:
            decision = planned.decision
            if isinstance(decision, Hit):
                yield self._report(
                    BuiltKey(
                        planned, Outcome.REUSED, decision.reason, decision.object, decision.facts, decision.seconds
                    )
                )
            elif isinstance(decision, StoreTrouble):
                yield self._report(BuiltKey(planned, Outcome.STORE_ERROR, decision.reason, None, {}, 0.0))

    def leave(self, misses: Sequence[PlannedKey], shares: Mapping[Digest, int]) -> Iterator[BuiltKey]:
        """The misses that are other shards'."""
        for key in misses:
            assert self._options.shard is not None
            reason = f"left to shard {shares[key.key_digest]}/{self._options.shard.count}"
            yield self._report(BuiltKey(key, Outcome.SKIPPED, reason, None, {}, 0.0))

    def compile(self, misses: Sequence[PlannedKey], folder: Path) -> Iterator[BuiltKey]:
        """Compile the misses, the longest first; one target's start-up overlaps with another's compiles."""
        if not misses:
            return
        misses = sorted(misses, key=_expected_seconds, reverse=True)
        earlier = earlier_records(misses, self._store, self._cache)
        known_irs = {digest: str(record.facts[IR_DIGEST]) for digest, record in earlier.items()}
        jobs = [
            CompileJob(number, key.kernel, key.symbol, key.target, known_irs.get(key.key_digest, ""))
            for number, key in enumerate(misses)
        ]
        setups = [self._setup(target) for target in dict.fromkeys(key.target for key in misses)]
        with Pool(setups, workers=self._options.workers, folder=folder) as pool:
            self.processes_started += pool.processes_started
            for finished in pool.run(jobs):
                planned = misses[finished.job.number]
                if finished.is_known_ir:
                    yield self._report(self._publish_again(planned, earlier[planned.key_digest]))
                else:
                    yield self._report(self._publish(planned, finished))
                if finished.failure is None:  # the folder of one that never started is everybody's
                    shutil.rmtree(finished.folder, ignore_errors=True)

    def finish(self, keys: list[BuiltKey], packs: PackMaker, folder: Path) -> list[BuiltKey]:
        """Make the packs if every key has an object; the keys, of which those with lost objects are compiled again."""
        if any(key.object is None for key in keys):
            return keys
        lost = packs.make(_wanted_packs(self._plan, keys), folder)
        if not lost:
            return keys
        kept = [key for key in keys if key.object not in lost]
        again = [_lost(key.planned, lost[key.object]) for key in keys if key.object and key.object in lost]
        logger.warning("%d objects cannot be had and are compiled again: %s", len(again), next(iter(lost.values())))
        keys = [*kept, *self.compile(again, folder)]
        if all(key.object is not None for key in keys):
            still_lost = packs.make(_wanted_packs(self._plan, keys), folder)
            if still_lost:
                raise next(iter(still_lost.values()))
        return keys

    def _setup(self, target: Target) -> Setup:
        profiles = tuple(profile for profile, wanted in self._plan.targets.values() if wanted == target)
        reported = [key for key in self._plan.keys if key.reported and key.target == target]
        return Setup(
            target=target,
            sys_path=self._options.sys_path,
            requests=self._plan.requests,
            profiles=profiles,
            limits=self._options.limits,
            sent_keys=tuple(SentKey(key.kernel, key.compile_key) for key in reported),
        )

    def _publish(self, planned: PlannedKey, finished: Finished) -> BuiltKey:
        assert isinstance(planned.decision, Miss)
        reason = planned.decision.reason
        if finished.facts is None:
            return BuiltKey(planned, Outcome.FAILED, reason, None, {}, 0.0, self._with_log(finished))
        outputs = {
            "object": put_blob(self._store, (finished.folder / OBJECT_FILE).read_bytes()),
            "cubin": put_blob(self._store, (finished.folder / CUBIN_FILE).read_bytes()),
        }
        facts = finished.facts.to_json()
        record = BuildRecord(planned.key_digest, outputs, facts, finished.facts.seconds, planned.preimage.to_json())
        if self._cache.put(record) is PutOutcome.CONFLICT:
            record = self._keep_first(planned, record)
        return BuiltKey(planned, Outcome.BUILT, reason, record.outputs["object"], record.facts, record.seconds)

    def _publish_again(self, planned: PlannedKey, earlier: BuildRecord) -> BuiltKey:
        """The object of the previous release under the key that it has by now."""
        record = replace(earlier, key_digest=planned.key_digest, preimage=planned.preimage.to_json())
        if self._cache.put(record) is PutOutcome.CONFLICT:
            record = self._keep_first(planned, record)
        reason = f"{planned.decision.reason}; it traces to the same IR as in the lockfile"
        return BuiltKey(planned, Outcome.REUSED, reason, record.outputs["object"], record.facts, record.seconds)

    def _with_log(self, finished: Finished) -> Failure | None:
        """The failure, with all of its log in the store: the machine that has the file may be gone tomorrow."""
        log = finished.folder / LOG_FILE
        if finished.failure is None or not log.exists():
            return finished.failure
        with log.open("rb") as file:
            file.seek(-min(_LOG_LIMIT_BYTES, log.stat().st_size), os.SEEK_END)
            blob = put_blob(self._store, file.read(), compress=False)  # to be read without a tool of ours
        return replace(finished.failure, log=str(blob.stored_digest))

    def _keep_first(self, planned: PlannedKey, ours: BuildRecord) -> BuildRecord:
        """Another build of the same key came first with other bytes: use those, and say which kind of case it is."""
        first = self._cache.get(planned.key_digest)
        difference = _difference(first, ours)
        self.conflicts += difference.startswith(CONFLICT)
        note = f"{planned.kernel} {planned.symbol}: {difference}; the first object stays, ours is kept as evidence"
        logger.warning(note)
        self.notes.append(note)
        return first

    def _report(self, key: BuiltKey) -> BuiltKey:
        self._on_progress(key)
        return key


def _wanted_packs(plan: Plan, keys: Sequence[BuiltKey]) -> dict[str, tuple[Target, dict[str, Descriptor]]]:
    """For each device profile its target and its objects by symbol."""
    return {
        device: (
            target,
            {key.planned.symbol: key.object for key in keys if device in key.planned.devices and key.object},
        )
        for device, (_, target) in plan.targets.items()
    }


def _expected_seconds(key: PlannedKey) -> float:
    """What nobody has compiled yet comes first: it may be the longest."""
    return math.inf if key.seconds_before is None else key.seconds_before


def _lost(key: PlannedKey, fault: Fault) -> PlannedKey:
    return replace(key, decision=Miss(f"its object was to be linked again, and the store has lost it: {fault.problem}"))


def _difference(first: BuildRecord, second: BuildRecord) -> str:
    """Which part of two different results of one key differs. One ptxas is known to vary; nothing else may."""
    if first.facts.get("ptx_digest") != second.facts.get("ptx_digest"):
        return f"{CONFLICT}: other PTX from the same key"
    images = [record.outputs.get("cubin") for record in (first, second)]
    if len({image and image.content_digest for image in images}) == 1:
        return f"{CONFLICT}: other host code from the same key"
    return "same PTX, another cubin (ptxas varies)"
