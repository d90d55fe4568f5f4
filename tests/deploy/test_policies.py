"""``registry/deploy/policies`` allow each role what its commands write, and nothing of what another role decides.

Read from the policies themselves; what a bucket makes of them is not tested here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kernelforge.digest import Digest
from kernelforge.store import layout

POLICIES = Path(__file__).parents[2] / "registry" / "deploy" / "policies"
DIGEST = Digest.of(b"x")
NAMES = {
    "marker": layout.MARKER,
    "blob": layout.blob_name(DIGEST),
    "record": layout.action_name("dev", DIGEST),
    "foreign record": layout.action_name("release", DIGEST),
    "lock": layout.lock_name(DIGEST),
    "signature": layout.signature_name(DIGEST, "0" * 64),
    "ref": layout.ref_name("qwen3-8b", "prod"),
    "move": layout.ref_log_name("qwen3-8b", "prod", 1),
    "pin": layout.pin_name("kept"),
    "announcement": f"{layout.GC_PREFIX}announced/{DIGEST.hex}.json",
    "list": f"{layout.GC_PREFIX}quarantine.json",
}
PUTS = {
    "ci-writer": {"marker", "blob", "record", "lock", "announcement"},
    "release-signer": {"signature", "ref", "move", "pin", "announcement"},
    "pod": set(),
    "gc": {"announcement", "list"},
}
DELETES = {"gc": {"blob", "record", "foreign record", "lock", "signature", "move", "announcement", "list"}}
ROLES = sorted(PUTS)


def allowed(role: str, action: str) -> set[str]:
    """What of ``NAMES`` the role may do this with; ``dev`` stands for DOMAIN."""
    found: dict[str, set[str]] = {"Allow": set(), "Deny": set()}
    for statement in json.loads((POLICIES / f"{role}.json").read_text())["Statement"]:
        for resource in statement["Resource"] if f"s3:{action}" in statement["Action"] else ():
            pattern = resource.removeprefix("arn:aws:s3:::BUCKET/PREFIX/").replace("DOMAIN", "dev")
            # As AWS reads it: a star goes on past slashes.
            shape = re.compile(re.escape(pattern).replace(r"\*", ".*"))
            found[statement["Effect"]] |= {what for what, name in NAMES.items() if shape.fullmatch(name)}
    return found["Allow"] - found["Deny"]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_writes_what_it_decides_and_nothing_else(role: str) -> None:
    assert allowed(role, "PutObject") == PUTS[role]


@pytest.mark.parametrize("role", ROLES)
def test_only_garbage_collection_deletes(role: str) -> None:
    assert allowed(role, "DeleteObject") == DELETES.get(role, set())


@pytest.mark.parametrize("role", ROLES)
def test_whoever_writes_for_ever_can_only_create(role: str) -> None:
    """Without the condition a CI job could replace what pods already trust by name."""
    for statement in json.loads((POLICIES / f"{role}.json").read_text())["Statement"]:
        if statement["Sid"] == "Create":
            assert statement["Condition"] == {"Null": {"s3:if-none-match": "false"}}


def test_pods_read_no_build_record_and_list_nothing() -> None:
    assert allowed("pod", "GetObject") == {"marker", "blob", "lock", "signature", "ref"}
    assert "ListBucket" not in (POLICIES / "pod.json").read_text()
