"""``build --misses``: what pods had to compile is in the next lockfile, from their documents to the pack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelforge.builder.host_object import library_symbols
from kernelforge.digest import Digest
from kernelforge.lockfile import Lockfile
from kernelforge.misses import MissedKey, Misses
from kernelforge.store.blobs import get_blob
from kernelforge.store.file import FileStore
from kernelforge.target import Target
from tests.cli.command import run, write_manifest

KERNEL = "tests.kernel_family:Copy"


def report(path: Path, *widths: object, kernel: str = KERNEL) -> Path:
    keys = tuple(
        MissedKey(kernel, {"width": width, "num_sms": 132}, Target("sm_90a"), "h200-sxm", 1, 2.0) for width in widths
    )
    path.write_bytes(Misses(Digest.of(b"the lockfile of the pods"), keys).to_bytes())
    return path


@pytest.mark.slow
def test_reported_keys_are_built_locked_and_packed(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, ("Copy", "{width: 32}"))
    reports = [report(tmp_path / "1.misses.json", 64, 96), report(tmp_path / "2.misses.json", 96)]
    options = [part for path in reports for part in ("--misses", path)]
    command = ("build", manifest, "--store", f"file:{tmp_path / 'store'}", *options, "--json")
    first = run(*command, cwd=tmp_path)
    assert first.code == 0, first.err
    reasons = {entry["compile_key"]["width"]: entry["reason"] for entry in first.report["entries"]}
    assert set(reasons) == {32, 64, 96}
    assert reasons[96].startswith("reported by pods (2 times)")
    assert reasons[64].startswith("reported by pods (1 time)")
    assert "pods" not in reasons[32]
    lock = Lockfile.parse((tmp_path / "registry/releases/small.lock.json").read_bytes())
    pack = get_blob(FileStore(tmp_path / "store"), lock.packs["h200-sxm"].blob)
    assert library_symbols(pack).entries >= {entry.symbol for entry in lock.entries}
    again = run(*command, cwd=tmp_path)
    assert again.totals["hits"] == again.totals["keys"] == 3
    assert again.report["workers_started"] == 0


@pytest.mark.parametrize(
    ("kernel", "width", "words"),
    [
        ("tests.kernel_family:Gone", 64, "no class 'Gone'"),
        (KERNEL, "64", "declared int"),
    ],
)
def test_a_report_that_cannot_be_used_is_bad_input(tmp_path: Path, kernel: str, width: object, words: str) -> None:
    manifest = write_manifest(tmp_path, ("Copy", "{width: 32}"))
    path = report(tmp_path / "1.misses.json", width, kernel=kernel)
    ran = run("plan", manifest, "--store", f"file:{tmp_path / 'store'}", "--misses", path, cwd=tmp_path)
    assert ran.code == 2
    assert words in ran.err


def test_a_file_that_is_no_report_is_named(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, ("Copy", "{width: 32}"))
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"schema": "kernelforge.lock/1"}))
    for wrong in (path, tmp_path / "absent.json"):
        ran = run("plan", manifest, "--store", f"file:{tmp_path / 'store'}", "--misses", wrong, cwd=tmp_path)
        assert ran.code == 2
        assert str(wrong) in ran.err
