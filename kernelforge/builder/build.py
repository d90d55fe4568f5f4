"""Carries out a plan: misses are compiled and published as they come, then every device profile gets its pack.

One failing kernel costs its own entries: everything else is built and kept. What was published is a hit of the next
build, so an interrupted build goes on where it was.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelforge.builder.job import CUBIN_FILE, OBJECT_FILE, CompileJob, Finished, SentKey, Setup
from kernelforge.builder.link import Linker, find_linker
from kernelforge.builder.pool import Pool
from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt, ObjectMissing
from kernelforge.lockfile import LockedPack, Lockfile
from kernelforge.plan import Hit, Miss, Plan, PlannedKey, StoreTrouble
from kernelforge.reporting import Failure, Outcome
from kernelforge.store import marker
from kernelforge.store.actions import ActionCache, BuildRecord, PutOutcome
from kernelforge.store.blobs import check_blob, get_blob, put_blob
from kernelforge.store.interface import PruneStore
from kernelforge.target import Target

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuildOptions:
    """``workers``: compiles at a time. ``limit_seconds``: wall time of one compile, after which it has failed."""

    workers: int
    limit_seconds: float
    sys_path: tuple[str, ...]


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
    """``packs`` is empty unless every key has an object: an incomplete release must not look like one."""

    keys: tuple[BuiltKey, ...]
    packs: Mapping[str, LockedPack]
    processes_started: int
    notes: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every key has an object."""
        return all(key.object is not None for key in self.keys)


def build(
    plan: Plan,
    *,
    store: PruneStore,
    domain: str,
    lock: Lockfile | None,
    options: BuildOptions,
    on_progress: Callable[[BuiltKey], None],
) -> BuildResult:
    """Compile the plan's misses, publish objects and records, link packs.

    ``on_progress`` is called for every key once its end is known. Raises ``ToolchainError`` when nothing can be linked
    and ``StoreError`` when results cannot be stored; a kernel that fails raises nothing.
    """
    if plan.decided(Miss):
        marker.claim(store)
    builder = _Builder(plan, store, ActionCache(store, domain), options, on_progress)
    with _scratch_folder() as folder:
        keys = [*builder.reuse(), *builder.compile(folder)]
        packs = builder.make_packs(keys, lock, folder) if all(key.object is not None for key in keys) else {}
    return BuildResult(tuple(keys), packs, builder.processes_started, tuple(builder.notes))


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

    def compile(self, folder: Path) -> Iterator[BuiltKey]:
        """Compile the misses; one target's start-up overlaps with another's compiles."""
        misses = self._plan.decided(Miss)
        if not misses:
            return
        jobs = [CompileJob(number, key.kernel, key.symbol, key.target) for number, key in enumerate(misses)]
        setups = [self._setup(target) for target in dict.fromkeys(key.target for key in misses)]
        with Pool(setups, workers=self._options.workers, folder=folder) as pool:
            self.processes_started = pool.processes_started
            for finished in pool.run(jobs):
                yield self._report(self._publish(misses[finished.job.number], finished))

    def _setup(self, target: Target) -> Setup:
        profiles = tuple(profile for profile, wanted in self._plan.targets.values() if wanted == target)
        reported = [key for key in self._plan.keys if key.reported and key.target == target]
        return Setup(
            target=target,
            sys_path=self._options.sys_path,
            requests=self._plan.requests,
            profiles=profiles,
            limit_seconds=self._options.limit_seconds,
            sent_keys=tuple(SentKey(key.kernel, key.compile_key) for key in reported),
        )

    def _publish(self, planned: PlannedKey, finished: Finished) -> BuiltKey:
        assert isinstance(planned.decision, Miss)
        reason = planned.decision.reason
        if finished.facts is None:
            return BuiltKey(planned, Outcome.FAILED, reason, None, {}, 0.0, finished.failure)
        outputs = {
            "object": put_blob(self._store, (finished.folder / OBJECT_FILE).read_bytes()),
            "cubin": put_blob(self._store, (finished.folder / CUBIN_FILE).read_bytes()),
        }
        facts = finished.facts.to_json()
        record = BuildRecord(planned.key_digest, outputs, facts, finished.facts.seconds, planned.preimage.to_json())
        if self._cache.put(record) is PutOutcome.CONFLICT:
            record = self._keep_first(planned, record)
        shutil.rmtree(finished.folder, ignore_errors=True)
        return BuiltKey(planned, Outcome.BUILT, reason, record.outputs["object"], record.facts, record.seconds)

    def _keep_first(self, planned: PlannedKey, ours: BuildRecord) -> BuildRecord:
        """Another build of the same key came first with other bytes: use those, and say which kind of case it is."""
        first = self._cache.get(planned.key_digest)
        note = (
            f"{planned.kernel} {planned.symbol}: {_difference(first, ours)}; "
            "the first object stays, ours is kept as evidence"
        )
        logger.warning(note)
        self.notes.append(note)
        return first

    def _report(self, key: BuiltKey) -> BuiltKey:
        self._on_progress(key)
        return key

    def make_packs(self, keys: list[BuiltKey], lock: Lockfile | None, folder: Path) -> dict[str, LockedPack]:
        """One pack per device profile; equal contents share one."""
        packs: dict[str, LockedPack] = {}
        by_recipe: dict[Digest, LockedPack] = {}
        for device, (_, target) in self._plan.targets.items():
            objects = {key.planned.symbol: key.object for key in keys if device in key.planned.devices and key.object}
            linker = find_linker(target)
            recipe = linker.recipe([(symbol, blob.content_digest) for symbol, blob in objects.items()])
            known = by_recipe.get(recipe) or self._known_pack(device, target, linker, recipe, lock)
            packs[device] = by_recipe[recipe] = known or self._link(target, linker, recipe, objects, folder)
        return packs

    def _known_pack(
        self, device: str, target: Target, linker: Linker, recipe: Digest, lock: Lockfile | None
    ) -> LockedPack | None:
        """The pack of this recipe if the store has it, by the lockfile's word or the action cache's."""
        locked = lock.packs.get(device) if lock else None
        try:
            if locked is not None and locked.recipe == recipe:
                check_blob(self._store, locked.blob)
                return locked
            pack = _locked_pack(target, linker, recipe, self._cache.get(recipe))
            check_blob(self._store, pack.blob)
            return pack
        except (ObjectMissing, ObjectCorrupt) as error:
            logger.info("linking the pack of %s: %s", device, error)
            return None

    def _link(
        self, target: Target, linker: Linker, recipe: Digest, objects: Mapping[str, Descriptor], folder: Path
    ) -> LockedPack:
        work = Path(tempfile.mkdtemp(prefix="pack-", dir=folder))
        linked = linker.link([(symbol, get_blob(self._store, blob)) for symbol, blob in objects.items()], work)
        blob = put_blob(self._store, linked.library)
        facts: dict[str, Any] = {"needed": list(linked.needed), "undefined": list(linked.undefined)}
        contents = {symbol: str(content.content_digest) for symbol, content in objects.items()}
        preimage: dict[str, Any] = {"linker": linker.identity, "objects": contents}
        record = BuildRecord(recipe, {"pack": blob}, facts, 0.0, preimage)
        if self._cache.put(record) is PutOutcome.CONFLICT:
            self.notes.append(f"CONFLICT: recipe {recipe} linked to other bytes; the first pack stays")
            record = self._cache.get(recipe)
        return _locked_pack(target, linker, recipe, record)


def _difference(first: BuildRecord, second: BuildRecord) -> str:
    """Which part of two different results of one key differs. One ptxas is known to vary; nothing else may."""
    if first.facts.get("ptx_digest") != second.facts.get("ptx_digest"):
        return "CONFLICT: other PTX from the same key"
    images = [record.outputs.get("cubin") for record in (first, second)]
    if len({image and image.content_digest for image in images}) == 1:
        return "CONFLICT: other host code from the same key"
    return "same PTX, another cubin (ptxas varies)"


def _locked_pack(target: Target, linker: Linker, recipe: Digest, record: BuildRecord) -> LockedPack:
    facts: Mapping[str, Any] = record.facts
    try:
        needed, undefined = (tuple(facts[name]) for name in ("needed", "undefined"))
        return LockedPack(target, recipe, record.outputs["pack"], linker.identity, needed, undefined)
    except KeyError as error:
        hint = "delete the record, or use another --domain, and build again"
        raise ObjectCorrupt(f"the record of the pack has no {error}", hint=hint, where=str(recipe)) from error
