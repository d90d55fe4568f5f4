"""``kernelforge inspect`` on stores, channels and digests: numbers that add up, and nothing listed for a digest."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kernelforge.release.census import take_census
from kernelforge.release.publish import publish_lockfile
from kernelforge.store.memory import MemoryStore
from kernelforge.store.named import Kind
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release
from tests.small_release import LOCK, fill

STORE = ("--store", "file:store")


def test_each_byte_is_counted_once_and_growth_is_what_is_new() -> None:
    store = MemoryStore()
    fill(store)
    publish_lockfile(LOCK, store, facts=None)
    publish_lockfile(replace(LOCK, name="again"), store, facts=None)
    store.create("somebody-elses", b"123")
    census = take_census(store)
    listed = list(store.listed())
    assert sum(census.objects.values()) == len(listed)
    assert sum(census.size_bytes.values()) == sum(each.size_bytes for each in listed)
    assert (census.objects[Kind.LOCK], census.size_bytes[Kind.UNKNOWN]) == (2, 3)
    first, second = census.releases
    assert (first.new_bytes, second.new_bytes) == (census.size_bytes[Kind.BLOB], 0)
    assert first.blob_bytes == second.blob_bytes == census.shared_bytes
    assert census.unreferenced_blobs == 0


def test_a_store_is_shown(kernelforge: Kernelforge, release: Release) -> None:
    document = json.loads(kernelforge("inspect", *STORE, "--json").out)
    assert document["kind"] == "store"
    assert [each["lock"] for each in document["releases"]] == [str(release.lock.digest)]
    blobs = list(release.store.listed("v1/blobs/"))
    assert document["kinds"]["blob"] == {"objects": len(blobs), "size_bytes": sum(each.size_bytes for each in blobs)}
    text = kernelforge("inspect", *STORE).out
    assert "sharing saves" in text
    assert str(release.lock.digest) in text


@pytest.mark.parametrize("kind", ["lockfile", "blob", "key"])
def test_a_digest_is_whatever_it_names(kernelforge: Kernelforge, release: Release, kind: str) -> None:
    entry = release.lock.entries[0]
    digest = {"lockfile": release.lock.digest, "blob": entry.object.stored_digest, "key": entry.key_digest}[kind]
    ran = kernelforge("inspect", str(digest), *STORE, "--json")
    assert (ran.code, json.loads(ran.out)["kind"]) == (0, kind)


def test_what_is_not_there_is_said(kernelforge: Kernelforge, release: Release) -> None:
    ran = kernelforge("inspect", "sha256:" + "0" * 64, *STORE)
    assert (ran.code, "nothing has this digest" in ran.err) == (3, True)
    assert kernelforge("inspect", "small/prod", *STORE).code == 3
    assert kernelforge("inspect", "none.lock.json").code == 2
    assert kernelforge("inspect", *STORE, "--kernel", "Copy").code == 2
