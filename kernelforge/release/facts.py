"""Build facts: a companion of a lockfile, so that the lockfile's own bytes hold nothing that varies from run to run.

Seconds, registers, spills and the like, per key digest (``kernelforge.facts/1``). Read back by later plans and builds
for 'seconds saved'; never needed to load a kernel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelforge import json_values
from kernelforge.digest import Digest
from kernelforge.errors import LockfileError

SCHEMA = "kernelforge.facts/1"
_DOCUMENT = {"schema": json_values.text, "lock": json_values.text, "keys": json_values.values(json_values.mapping)}


def facts_path(lockfile: Path) -> Path:
    """Where the companion of a local lockfile is: ``name.lock.json`` -> ``name.facts.json``."""
    return lockfile.with_name(f"{lockfile.name.removesuffix('.lock.json')}.facts.json")


def facts_bytes(lock_digest: Digest, facts: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The document about the lockfile with this digest; ``facts`` is by key digest."""
    document = {"schema": SCHEMA, "lock": str(lock_digest), "keys": {key: dict(value) for key, value in facts.items()}}
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def read_facts(path: Path) -> dict[str, dict[str, Any]]:
    """Facts by key digest; empty where there is no companion, ``LockfileError`` where it is no such document."""
    try:
        document = json_values.members(json_values.parse(path.read_bytes()), _DOCUMENT)
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}, this version reads {SCHEMA}")
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as error:
        hint = "delete it, it can be made again"
        raise LockfileError(f"no build facts: {error}", hint=hint, where=str(path)) from error
    facts: dict[str, dict[str, Any]] = document["keys"]
    return facts
