"""The roles of a store for tests: what each may do, and their policies as a server gets them.

The policies under test are the files in ``registry/deploy/policies``, filled in as an operator fills them in.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from kernelforge.digest import Digest
from kernelforge.errors import ObjectConflict, ObjectMissing, StoreDenied
from kernelforge.store import layout
from kernelforge.store.interface import PruneStore
from kernelforge.store.locate import open_store
from tests.seaweed import BUCKET, SeaweedServer

POLICIES = Path(__file__).parents[2] / "registry" / "deploy" / "policies"
ROLES = ("ci-writer", "gc", "pod", "release-signer")
#: The domain that CI builds in.
DOMAIN = "release"
#: No condition that SeaweedFS knows.
CREATE_ONLY = {"Null": {"s3:if-none-match": "false"}}

_DIGEST = Digest.of(b"x")
#: One object of every kind.
NAMES = {
    "marker": layout.MARKER,
    "blob": layout.blob_name(_DIGEST),
    "record": layout.action_name(DOMAIN, _DIGEST),
    "conflict": layout.conflict_name(DOMAIN, _DIGEST, _DIGEST),
    "foreign record": layout.action_name("dev", _DIGEST),
    "lock": layout.lock_name(_DIGEST),
    "facts": layout.about_name(_DIGEST, "facts", _DIGEST),
    "signature": layout.signature_name(_DIGEST, "0" * 64),
    "ref": layout.ref_name("qwen3-8b", "prod"),
    "move": layout.ref_log_name("qwen3-8b", "prod", 1),
    "pin": layout.pin_name("kept"),
    "announcement": f"{layout.GC_PREFIX}announced/{_DIGEST.hex}.json",
    "list": f"{layout.GC_PREFIX}quarantine.json",
    "damage": f"{layout.QUARANTINE_PREFIX}index.json",
}
PUTS = {
    "ci-writer": {"marker", "blob", "record", "conflict", "lock", "facts", "announcement"},
    "release-signer": {"signature", "ref", "move", "pin", "announcement"},
    "pod": set[str](),
    "gc": {"announcement", "list", "damage"},
}
GETS = {**{role: set(NAMES) for role in ROLES}, "pod": {"marker", "blob", "lock", "facts", "signature", "ref"}}
DELETES = {
    "ci-writer": set[str](),
    "release-signer": {"pin"},
    "pod": set[str](),
    "gc": set(NAMES) - {"marker", "ref", "pin"},
}


def read_policy(role: str) -> dict[str, Any]:
    """The file as it is, placeholders and all."""
    found = json.loads((POLICIES / f"{role}.json").read_text())
    assert isinstance(found, dict)
    return found


def filled_in(role: str, prefix: str) -> dict[str, Any]:
    """The policy for this prefix of the tests' bucket."""
    text = json.dumps(read_policy(role)).replace("BUCKET", BUCKET).replace("PREFIX", prefix).replace("DOMAIN", DOMAIN)
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def without_create_only(policy: dict[str, Any]) -> dict[str, Any]:
    """The policy for a server that does not know ``s3:if-none-match``; nothing else of it changes."""
    changed = copy.deepcopy(policy)
    for statement in changed["Statement"]:
        if statement.get("Condition") == CREATE_ONLY:
            del statement["Condition"]
    return changed


@contextlib.contextmanager
def acting_as(server: SeaweedServer, identity: str) -> Iterator[None]:
    """Connections that are made in the block are this identity's."""
    with mock.patch.dict(os.environ, server.environment(identity)):
        yield


@functools.cache
def opened_as(server: SeaweedServer, identity: str, prefix: str) -> PruneStore:
    """The store, connected as this identity for good, which takes a while and is done once."""
    store = open_store(server.location(prefix))
    with acting_as(server, identity), contextlib.suppress(ObjectMissing, StoreDenied):
        store.get(layout.MARKER, limit_bytes=1 << 16)
    return store


def permitted(attempt: Callable[[str], object]) -> set[str]:
    """What of ``NAMES`` the server lets somebody do this with."""
    return {what for what, name in NAMES.items() if _is_permitted(attempt, name)}


def _is_permitted(attempt: Callable[[str], object], name: str) -> bool:
    try:
        attempt(name)
    except StoreDenied:
        return False
    except (ObjectConflict, ObjectMissing):
        return True
    return True
