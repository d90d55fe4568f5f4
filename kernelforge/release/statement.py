"""What a signature over a lockfile says: an in-toto statement about the sha256 of its bytes, and until when it holds.

Knows no keys and no clock: ``signature`` opens what was signed, and asks whether it still holds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernelforge import json_values
from kernelforge.digest import Digest
from kernelforge.errors import UntrustedLockfile
from kernelforge.release.provenance import BUILDER, DEFINITION, Provenance, exactly, of_members
from kernelforge.release.utc import read_utc, utc_text

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"


@dataclass(frozen=True)
class Statement:
    """One lockfile, where it comes from, and the time in which this holds (``expires`` None: for ever)."""

    lock: Digest
    provenance: Provenance
    issued: datetime
    expires: datetime | None

    def to_bytes(self) -> bytes:
        """What is signed. Equal statements have equal bytes."""
        made = self.provenance
        validity = {
            "kernelforge_issued": utc_text(self.issued),
            "kernelforge_expires": None if self.expires is None else utc_text(self.expires),
        }
        document = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": f"{made.deployment}.lock.json", "digest": {"sha256": self.lock.hex}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "buildDefinition": made.definition_json(),
                "runDetails": {"builder": made.builder_json(), "metadata": validity},
            },
        }
        return (json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode()

    @classmethod
    def parse(cls, payload: bytes, *, where: str) -> Statement:
        """Read what ``to_bytes`` writes; ``UntrustedLockfile`` for anything else.

        Strict, although a trusted key has signed it: an end of validity under a misspelt name would be none.
        """
        try:
            return _statement(json_values.members(json_values.parse(payload), _STATEMENT))
        except ValueError as error:
            raise UntrustedLockfile(
                f"what is signed is no statement about a lockfile: {error}",
                hint="sign the lockfile again with 'kernelforge sign'",
                where=where,
                reason="altered",
            ) from error


def _statement(document: dict[str, Any]) -> Statement:
    subjects = document["subject"]
    if len(subjects) != 1:
        raise ValueError(f"subject: one lockfile is needed, not {len(subjects)}")
    definition, run = document["predicate"]["buildDefinition"], document["predicate"]["runDetails"]
    return Statement(
        lock=subjects[0]["digest"]["sha256"],
        provenance=Provenance.from_json(definition, run["builder"]),
        issued=run["metadata"]["kernelforge_issued"],
        expires=run["metadata"]["kernelforge_expires"],
    )


def _sha256(value: Any) -> Digest:
    return Digest.parse(f"sha256:{json_values.text(value)}")


_VALIDITY = of_members(
    kernelforge_issued=read_utc, kernelforge_expires=lambda value: None if value is None else read_utc(value)
)
_STATEMENT = {
    "_type": exactly(STATEMENT_TYPE),
    "subject": json_values.items(of_members(name=json_values.text, digest=of_members(sha256=_sha256))),
    "predicateType": exactly(PREDICATE_TYPE),
    "predicate": of_members(buildDefinition=DEFINITION, runDetails=of_members(builder=BUILDER, metadata=_VALIDITY)),
}
