"""What is signed about a lockfile: in-toto's and SLSA's words, read strictly."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kernelforge.errors import UntrustedLockfile
from kernelforge.release.provenance import Provenance
from kernelforge.release.statement import Statement
from tests.release.signed import HOUR, NOW, provenance, statement
from tests.small_release import LOCK, OTHER


@pytest.mark.parametrize(
    "made",
    [
        statement(),
        statement(expires=NOW + HOUR),
        Statement(OTHER, replace(provenance(), source=None), NOW, None),
        Statement(OTHER, replace(provenance(), toolchains={}), NOW, None),
    ],
    ids=["for ever", "with an end", "source unknown", "no toolchain"],
)
def test_a_statement_comes_back_from_its_bytes(made: Statement) -> None:
    assert Statement.parse(made.to_bytes(), where="here") == made
    assert Statement.parse(made.to_bytes(), where="here").to_bytes() == made.to_bytes()


def test_the_words_are_those_of_in_toto_and_slsa() -> None:
    """Golden: other tools look for exactly these members."""
    document = json.loads(statement(expires=NOW + HOUR).to_bytes())
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["subject"] == [{"name": "qwen3-8b.lock.json", "digest": {"sha256": LOCK.digest.hex}}]
    assert document["predicateType"] == "https://slsa.dev/provenance/v1"
    assert document["predicate"] == {
        "buildDefinition": {
            "buildType": "urn:kernelforge:build:1",
            "externalParameters": {"deployment": "qwen3-8b", "domain": "release"},
            "resolvedDependencies": [
                {"uri": "pkg:pypi/nvidia-cutlass-dsl@4.8.1", "annotations": {"cuda": "cu13"}},
                {
                    "name": "source",
                    "digest": {"gitCommit": "0123456789abcdef0123456789abcdef01234567"},
                    "annotations": {"dirty": False},
                },
            ],
        },
        "runDetails": {
            "builder": {"id": "urn:kernelforge:builder:local", "version": {"kernelforge": "1.2.3"}},
            "metadata": {
                "kernelforge_issued": "2027-01-31T09:30:00Z",
                "kernelforge_expires": "2027-01-31T10:30:00Z",
            },
        },
    }


def test_toolchains_are_those_of_the_lockfile() -> None:
    made = Provenance.of(LOCK, domain="dev", source=None, builder="urn:x", version="1")
    assert made.toolchains == {"cu13": {"nvidia-cutlass-dsl": "4.8.1"}}


def _metadata(document: Any) -> Any:
    return document["predicate"]["runDetails"]["metadata"]


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("subject"),
        lambda document: document.update(subject=[]),
        lambda document: document["subject"].append(document["subject"][0]),
        lambda document: document["subject"][0]["digest"].update(sha256="0" * 63),
        lambda document: document["subject"][0]["digest"].update(sha256=LOCK.digest.hex.upper()),
        lambda document: document.update(_type="https://in-toto.io/Statement/v2"),
        lambda document: document.update(predicateType="https://slsa.dev/provenance/v2"),
        lambda document: document["predicate"]["buildDefinition"].update(buildType="urn:other"),
        lambda document: document["predicate"]["buildDefinition"].update(resolvedDependencies=[{"uri": "git+x"}]),
        lambda document: _metadata(document).update(kernelforge_expires="soon"),
        lambda document: _metadata(document).update(kernelforge_expires="2027-02-30T00:00:00Z"),
        lambda document: _metadata(document).update(kernelforge_expires=0),
        lambda document: _metadata(document).pop("kernelforge_expires"),
        lambda document: _metadata(document).update(kernelforge_expire="2027-01-31T09:30:00Z"),
        lambda document: document.update(more=1),
    ],
)
def test_anything_else_is_no_statement(change: Callable[[Any], Any]) -> None:
    """Also where a trusted key has signed it: an end of validity that is misspelt would be no end."""
    document = json.loads(statement().to_bytes())
    change(document)
    with pytest.raises(UntrustedLockfile, match="here: what is signed is no statement about a lockfile"):
        Statement.parse(json.dumps(document).encode(), where="here")


@pytest.mark.parametrize("payload", [b"", b"\xff", b"[" * 100_000, b"null", b'{"_type":1,"_type":2}'])
def test_bytes_that_are_no_document_are_no_statement(payload: bytes) -> None:
    with pytest.raises(UntrustedLockfile):
        Statement.parse(payload, where="here")
