"""``registry/deploy/policies`` allow each role what its commands write, and nothing of what another role decides.

Read from the policies themselves, as AWS reads them. What a server makes of them is in ``test_roles``.
"""

from __future__ import annotations

import re

import pytest

from tests.deploy.roles import CREATE_ONLY, DELETES, DOMAIN, GETS, NAMES, PUTS, ROLES, read_policy

IN_STORE = "arn:aws:s3:::BUCKET/PREFIX/"


def is_like(pattern: str, name: str) -> bool:
    """As AWS reads it: a star goes on past slashes."""
    pattern = re.escape(pattern.replace("DOMAIN", DOMAIN))
    return bool(re.fullmatch(pattern.replace(r"\*", ".*").replace(r"\?", "."), name))


def allowed(role: str, action: str) -> set[str]:
    """What of ``NAMES`` the role may do this with."""
    found: dict[str, set[str]] = {"Allow": set(), "Deny": set()}
    for statement in read_policy(role)["Statement"]:
        for resource in statement["Resource"] if f"s3:{action}" in statement["Action"] else ():
            pattern = resource.removeprefix(IN_STORE)
            found[statement["Effect"]] |= {what for what, name in NAMES.items() if is_like(pattern, name)}
    return found["Allow"] - found["Deny"]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_writes_what_it_decides_and_nothing_else(role: str) -> None:
    assert allowed(role, "PutObject") == PUTS[role]


@pytest.mark.parametrize("role", ROLES)
def test_garbage_collection_deletes_and_the_signer_unpins(role: str) -> None:
    assert allowed(role, "DeleteObject") == DELETES[role]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_what_it_needs(role: str) -> None:
    assert allowed(role, "GetObject") == GETS[role]


def test_whoever_writes_for_ever_can_only_create() -> None:
    """Without the condition a CI job could replace what pods already trust by name."""
    replaceable = {
        what
        for role in ("ci-writer", "release-signer")
        for statement in read_policy(role)["Statement"]
        if statement["Action"] == ["s3:PutObject"] and statement["Effect"] == "Allow"
        if statement.get("Condition") != CREATE_ONLY
        for what, name in NAMES.items()
        if any(is_like(resource.removeprefix(IN_STORE), name) for resource in statement["Resource"])
    }
    assert replaceable == {"signature", "ref"}


def test_a_pod_lists_nothing_but_names_that_it_has_whole() -> None:
    """AWS says 403 and not 404 for a missing object that one may not list, as the signature of a retired key is."""
    (listing,) = (each for each in read_policy("pod")["Statement"] if each["Action"] == ["s3:ListBucket"])
    patterns = [pattern.removeprefix("PREFIX/") for pattern in listing["Condition"]["StringLike"]["s3:prefix"]]
    assert {what for what, name in NAMES.items() if any(is_like(each, name) for each in patterns)} == GETS["pod"]
    for name in NAMES.values():
        parts = {name[:length] for length in range(len(name))}
        assert not [part for part in parts for each in patterns if is_like(each, part)]


@pytest.mark.parametrize("role", ROLES)
def test_statements_have_names_that_aws_accepts(role: str) -> None:
    names = [statement["Sid"] for statement in read_policy(role)["Statement"]]
    assert all(re.fullmatch("[A-Za-z0-9]+", name) for name in names)
    assert len(set(names)) == len(names)
