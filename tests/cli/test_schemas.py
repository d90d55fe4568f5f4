"""``registry/schemas`` says of every document in a store what the code says: what is written fits, what is changed not.

The documents are those of a release that was published, signed, promoted, pinned, damaged and bundled with commands.
"""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kernelforge.release.keys import SigningKey
from kernelforge.store import marker
from kernelforge.store.layout import blob_name
from kernelforge.store.named import Kind, named
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release

SCHEMAS = Path(__file__).parents[2] / "registry" / "schemas"
STORE = ("--store", "file:store")
OF_KIND = {
    Kind.MARKER: "store",
    Kind.RECORD: "record",
    Kind.LOCK: "lock",
    Kind.SIGNATURE: "envelope",
    Kind.REF: "envelope",
    Kind.MOVE: "move",
    Kind.PIN: "pin",
    Kind.ANNOUNCEMENT: "announcement",
    Kind.EVIDENCE: "damage",
}


def schema(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text())
    return document


@pytest.fixture
def documents(kernelforge: Kernelforge, release: Release) -> dict[str, list[dict[str, Any]]]:
    """By schema."""
    marker.claim(release.store)
    key = release.folder / "release.key"
    key.write_bytes(SigningKey.new().to_pem())
    key.chmod(0o600)
    kernelforge("sign", release.lock_path, "--key", key, *STORE, "--domain", "release")
    kernelforge("promote", "prod", release.lock_path, "--key", key, *STORE)
    kernelforge("gc", "--pin", "kept", release.lock_path, *STORE)
    kernelforge("bundle", release.lock_path, "-o", "x.bundle", *STORE)
    damaged = release.folder / "store" / blob_name(release.lock.entries[0].object.stored_digest)
    damaged.chmod(0o644)
    damaged.write_bytes(b"?" * damaged.stat().st_size)
    kernelforge("verify", release.lock_path, "--deep", *STORE)
    found: dict[str, list[dict[str, Any]]] = {}
    for each in release.store.listed():
        if each.name.endswith(".json") and (name := OF_KIND.get(named(each.name).kind)):
            found.setdefault(name, []).append(json.loads(release.store.get(each.name, limit_bytes=1 << 20)))
    for envelope in found["envelope"]:
        name = "ref" if envelope["payloadType"].endswith("ref+json") else "statement"
        found.setdefault(name, []).append(json.loads(base64.b64decode(envelope["payload"])))
    with zipfile.ZipFile(release.folder / "x.bundle") as bundle:
        found["bundle"] = [json.loads(bundle.read("bundle.json"))]
    return found


def test_every_schema_has_a_document_that_fits(documents: dict[str, list[dict[str, Any]]]) -> None:
    assert set(documents) == {path.stem for path in SCHEMAS.glob("*.json")}
    for name, those in documents.items():
        validator = jsonschema.Draft202012Validator(schema(name))
        validator.check_schema(schema(name))
        for document in those:
            validator.validate(document)


def test_a_member_more_or_less_does_not_fit(documents: dict[str, list[dict[str, Any]]]) -> None:
    for name, those in documents.items():
        validator = jsonschema.Draft202012Validator(schema(name))
        for document in those:
            assert not validator.is_valid({**document, "more": 1}), name
            for member in document:
                less = {key: value for key, value in document.items() if key != member}
                assert not validator.is_valid(less), f"{name} without {member}"
