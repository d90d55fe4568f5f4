"""The action cache: what came out of a build, by the digest of everything that went in.

It saves work and proves nothing: whoever may write a record decides what later builds take for their result, so pods go
by lockfiles and never look here. The first record of a key digest stays; a second one with other outputs is kept as
evidence beside it.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import EncodingError, InputError, ObjectConflict, ObjectCorrupt, ObjectMissing
from kernelforge.store.blobs import check_blob
from kernelforge.store.documents import Json, from_bytes, to_bytes
from kernelforge.store.interface import PruneStore, moved_on
from kernelforge.store.layout import action_name, check_domain, conflict_name

_log = logging.getLogger(__name__)

SCHEMA = "kernelforge.action/1"
#: A record is a few kilobytes: the preimage of a key and the facts of one kernel.
RECORD_LIMIT_BYTES = 1 << 20

# Each try is lost only to somebody else who repairs the same record at that moment.
_TRIES = 5

_MEMBERS = {"schema", "key_digest", "outputs", "facts", "seconds", "preimage"}


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """The result of one build.

    ``outputs`` are blobs by role (``object``, ``cubin``); ``facts`` what was learnt about them (registers, spills);
    ``seconds`` the CPU time that a hit saves; ``preimage`` what ``key_digest`` was made from, so that a later miss can
    say what differs. All but the outputs is for people and reports.
    """

    key_digest: Digest
    outputs: Mapping[str, Descriptor]
    facts: Mapping[str, Json]
    seconds: float
    preimage: Mapping[str, Json]

    def to_bytes(self) -> bytes:
        """Canonical JSON; ``EncodingError`` if a fact or the preimage is no JSON, or all of it is too large."""
        where = f"build record of {self.key_digest}"
        document: dict[str, Json] = {
            "schema": SCHEMA,
            "key_digest": str(self.key_digest),
            "outputs": {role: blob.to_json() for role, blob in self.outputs.items()},
            "facts": dict(self.facts),
            "seconds": float(self.seconds),
            "preimage": dict(self.preimage),
        }
        data = to_bytes(document, where=where)
        problem = _problem_with(document, self.key_digest)
        if len(data) > RECORD_LIMIT_BYTES:
            problem = f"has {len(data)} bytes, at most {RECORD_LIMIT_BYTES} are kept"
        if problem:
            raise EncodingError(problem, hint="give seconds >= 0, and keep large things as outputs", where=where)
        return data

    @classmethod
    def parse(cls, data: bytes, *, key_digest: Digest, where: str) -> BuildRecord:
        """Read what ``to_bytes`` wrote for ``key_digest``; ``ObjectCorrupt`` if it is anything else."""
        document = from_bytes(data, schema=SCHEMA, where=where)
        problem = _problem_with(document, key_digest)
        if problem:
            raise ObjectCorrupt(problem, hint="build again; the damaged record is replaced", where=where)
        try:
            outputs = {role: Descriptor.from_json(blob) for role, blob in document["outputs"].items()}
        except InputError as error:
            raise ObjectCorrupt(error.problem, hint=error.hint, where=where) from error
        return cls(key_digest, outputs, document["facts"], document["seconds"], document["preimage"])

    @property
    def outputs_digest(self) -> Digest:
        """Digest of what was built, whatever it is called in the store and however long it took."""
        contents: dict[str, Json] = {role: str(blob.content_digest) for role, blob in self.outputs.items()}
        return Digest.of(to_bytes(contents, where="outputs"))


class PutOutcome(enum.Enum):
    """What became of a record."""

    CREATED = "created"  # it is the one that answers from now on
    SAME = "same"  # one with the same outputs was there
    CONFLICT = "conflict"  # one with other outputs was there; it stays, ours is beside it


class ActionCache:
    """Build records of one domain in a store."""

    def __init__(self, store: PruneStore, domain: str) -> None:
        check_domain(domain)
        self._store = store
        self._domain = domain

    def get(self, key_digest: Digest) -> BuildRecord:
        """The record of ``key_digest``. ``ObjectMissing`` is a miss; every other error is trouble, not a miss."""
        name = action_name(self._domain, key_digest)
        data = self._store.get(name, limit_bytes=RECORD_LIMIT_BYTES)
        return BuildRecord.parse(data, key_digest=key_digest, where=f"{self._store.location}: {name}")

    def put(self, record: BuildRecord) -> PutOutcome:
        """Keep ``record``, whose blobs must be in the store; after ``CONFLICT``, ``get`` has the one that counts.

        A record that is damaged, or whose blobs are lost, answers nobody and is replaced, with a warning in the log.
        """
        name = action_name(self._domain, record.key_digest)
        data = record.to_bytes()
        for _ in range(_TRIES):
            try:
                return PutOutcome.CREATED if self._store.create(name, data) else PutOutcome.SAME
            except ObjectConflict:
                kept = self._usable(record.key_digest)
            if kept is not None and kept.outputs_digest == record.outputs_digest:
                return PutOutcome.SAME
            if kept is not None:
                self._keep_evidence(record, data)
                return PutOutcome.CONFLICT
        raise moved_on(f"{self._store.location}: {name}")

    def _usable(self, key_digest: Digest) -> BuildRecord | None:
        """The record that is there; one that nobody can use is removed, unless somebody else has repaired it."""
        name, version = action_name(self._domain, key_digest), None
        try:
            data, version = self._store.get_versioned(name, limit_bytes=RECORD_LIMIT_BYTES)
            kept = BuildRecord.parse(data, key_digest=key_digest, where=f"{self._store.location}: {name}")
            for blob in kept.outputs.values():
                check_blob(self._store, blob)
        except (ObjectCorrupt, ObjectMissing) as error:
            if version is None and isinstance(error, ObjectMissing):
                return None
            _log.warning("replacing the build record of %s: %s", key_digest, error)
            with contextlib.suppress(ObjectConflict):
                self._store.delete(name, version=version)
            return None
        return kept

    def _keep_evidence(self, record: BuildRecord, data: bytes) -> None:
        name = conflict_name(self._domain, record.key_digest, record.outputs_digest)
        try:
            self._store.create(name, data)
        except ObjectConflict:
            _log.debug("the same conflict is on record already: %s", name)


def _problem_with(document: dict[str, Any], key_digest: Digest) -> str:
    """What keeps ``document`` from being the record of ``key_digest``; empty if nothing does."""
    if set(document) != _MEMBERS:
        return f"the members are {', '.join(sorted(document))}, not {', '.join(sorted(_MEMBERS))}"
    if document["key_digest"] != str(key_digest):
        return f"is the record of {document['key_digest']!r}, not of {key_digest}"
    if not all(isinstance(document[name], dict) for name in ("outputs", "facts", "preimage")):
        return "outputs, facts and preimage must be objects"
    seconds = document["seconds"]
    if type(seconds) is not float or not math.isfinite(seconds) or seconds < 0:
        return f"{seconds!r} is not a number of seconds"
    return ""
