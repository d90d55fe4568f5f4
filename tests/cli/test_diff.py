"""``kernelforge diff``: the difference of two releases as people and programs read it."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.cli.in_process import Kernelforge
from tests.cli.released import Release


def test_equal_releases_differ_in_nothing(kernelforge: Kernelforge, release: Release) -> None:
    """One from a file, one from the store."""
    ran = kernelforge(
        "diff", release.lock_path, str(release.lock.digest), "--store", "file:store", "--exit-code", "--json"
    )
    document = json.loads(ran.out)
    assert (ran.code, document["keys"], document["release"], document["counts"]) == (0, [], [], {})
    assert document["old"] == document["new"] == str(release.lock.digest)


def test_what_was_removed_is_said(kernelforge: Kernelforge, release: Release) -> None:
    old = release.folder / "old.lock.json"
    old.write_bytes(release.lock.to_bytes())
    gone = release.lock.entries[0]
    release.rewrite(replace(release.lock, entries=release.lock.entries[1:]))
    ran = kernelforge("diff", old, release.lock_path, "--exit-code", "--json")
    document = json.loads(ran.out)
    assert (ran.code, document["counts"]) == (1, {"removed": 1})
    assert document["keys"][0]["symbol"] == gone.symbol
    back = json.loads(kernelforge("diff", release.lock_path, old, "--json").out)
    assert back["counts"] == {"added": 1}
    assert "removed" in kernelforge("diff", old, release.lock_path).out


def test_what_is_not_there_is_said(kernelforge: Kernelforge, release: Release) -> None:
    assert kernelforge("diff", "none.lock.json", release.lock_path).code == 2
    absent = "sha256:" + "0" * 64
    assert kernelforge("diff", absent, release.lock_path, "--store", "file:store").code == 3
