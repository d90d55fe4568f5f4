"""A build on several machines: each compiles its part, and ``lock`` writes what one build would have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import run, write_manifest

pytestmark = pytest.mark.slow

_KERNELS = (("Copy", "{width: {choices: [32, 64, 96, 128, 160]}}"), ("Untidy", "{width: 32}"))


def test_shards_and_lock_make_the_lockfile_of_one_build(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("whole", "first", "second", "joined")}
    for folder in folders.values():
        folder.mkdir()
    manifest = write_manifest(tmp_path, *_KERNELS)
    store = ("--store", f"file:{tmp_path / 'shared'}", "--json")

    whole = run("build", manifest, "--store", "file:store", cwd=folders["whole"])
    assert whole.code == 0, whole.err

    first = run("build", manifest, *store, "--shard", "1/2", cwd=folders["first"])
    assert first.code == 0, first.err
    assert (first.totals["built"], first.totals["skipped"]) == (3, 3)
    assert {entry["reason"] for entry in first.report["entries"] if entry["outcome"] == "skipped"} == {
        "left to shard 2/2"
    }
    early = run("lock", manifest, *store, cwd=folders["joined"])
    assert early.code == 1
    assert "3 of 6 keys are not built yet" in early.err
    second = run("build", manifest, *store, "--shard", "2/2", cwd=folders["second"])
    assert (second.code, second.totals["built"], second.totals["skipped"]) == (0, 3, 0)
    assert second.totals["reused"] == 3, "what another shard has published is a hit"

    joined = run("lock", manifest, *store, "--fail-on", "spills", cwd=folders["joined"])
    assert joined.code == 0, joined.err
    assert joined.report["workers_started"] == 0
    lock = Path("registry/releases/small.lock.json")
    assert (folders["joined"] / lock).read_bytes() == (folders["whole"] / lock).read_bytes()
    for shard in ("first", "second"):
        assert not (folders[shard] / lock).exists(), "which shard ends last is chance"


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3"])
def test_what_is_no_shard_is_refused(tmp_path: Path, shard: str) -> None:
    refused = run("build", write_manifest(tmp_path, *_KERNELS), "--shard", shard, cwd=tmp_path)
    assert refused.code == 2
    assert "1/8" in refused.err
