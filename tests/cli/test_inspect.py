"""The command inspect: what the bytes themselves say, beside what was recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelforge.builder.cubin import read_cubin
from kernelforge.builder.job import CUBIN_FILE, OBJECT_FILE
from kernelforge.device import DeviceProfile
from kernelforge.digest import Digest
from kernelforge.lockfile import LockedEntry, Lockfile
from kernelforge.store.blobs import put_blob
from kernelforge.store.layout import blob_name
from kernelforge.target import Target
from tests.builder.compiling import compile_all, requests_of
from tests.cli.device_image import device_image
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release, object_file

STORE = ("--store", "file:store")


def inspected(kernelforge: Kernelforge, path: Path, *options: object, code: int = 0) -> dict[str, Any]:
    ran = kernelforge("inspect", path, *STORE, "--json", *options)
    assert ran.code == code, ran.out + ran.err
    return json.loads(ran.out)


def with_entry(lock: Lockfile, entry: LockedEntry) -> Lockfile:
    """The lockfile with one of its entries changed."""
    others = tuple(each for each in lock.entries if (each.symbol, each.devices) != (entry.symbol, entry.devices))
    return replace(lock, entries=(*others, entry))


def test_objects_show_what_was_recorded_and_what_the_image_says(kernelforge: Kernelforge, release: Release) -> None:
    document = inspected(kernelforge, release.lock_path)
    assert len(document["objects"]) == 4
    for found in document["objects"]:
        (image,) = found["images"]
        arch = found["target"].partition("/")[0]
        expected = device_image(arch)
        assert (image["arch"], image["registers"], image["ptxas"]) == (arch, 24, "13.1.0")
        assert (image["digest"], image["size_bytes"]) == (str(Digest.of(expected)), len(expected))
        assert found["symbol"].startswith("kf_Copy_")
        assert found["problem"] == ""


def test_packs_show_their_symbols_and_libraries(kernelforge: Kernelforge, release: Release) -> None:
    packs = {pack["device"]: pack for pack in inspected(kernelforge, release.lock_path)["packs"]}
    assert set(packs) == {"b200", "h200-sxm"}
    symbols = {f"__tvm_ffi_{entry.symbol}" for entry in release.lock.entries_for("b200")}
    assert set(packs["b200"]["file"]["exported"]) == {*symbols, "__tvm_ffi_kf_preload"}
    assert packs["b200"]["file"]["images"] == 2
    assert packs["b200"]["file"]["needed"] == packs["b200"]["needed"]
    assert packs["b200"]["size_bytes"] == release.lock.packs["b200"].blob.content_size_bytes


def test_the_table_has_it_all(kernelforge: Kernelforge, release: Release) -> None:
    ran = kernelforge("inspect", release.lock_path, *STORE)
    assert ran.code == 0, ran.err
    assert "recorded target sm_90a/x86_64-linux-gnu/cu13" in ran.out
    assert ["sm_90a", "13.1.0", "24", "0", "0", "64", "B"] in [line.split()[:7] for line in ran.out.splitlines()]
    assert release.lock.entries[0].symbol in ran.out
    assert "2 kernels (" in ran.out


def test_the_recorded_target_and_the_image_are_two_facts(kernelforge: Kernelforge, release: Release) -> None:
    """Case C3: a plain and a family image look alike to other tools; a record that differs is shown, never hidden."""
    entry = release.lock.entries_for("b200")[0]
    blob = put_blob(release.store, object_file(entry.symbol, device_image("sm_100f")))
    release.rewrite(with_entry(release.lock, replace(entry, object=blob)))
    document = inspected(kernelforge, release.lock_path, "--symbol", entry.symbol, code=1)
    found = {one["target"]: [image["arch"] for image in one["images"]] for one in document["objects"]}
    assert found["sm_100a/x86_64-linux-gnu/cu13"] == ["sm_100f"]
    ran = kernelforge("inspect", release.lock_path, *STORE)
    assert ran.code == 1
    assert f"note: {entry.symbol}: recorded for sm_100a, its code is for sm_100f" in ran.out


def test_an_object_without_device_code_is_not_what_was_recorded(kernelforge: Kernelforge, release: Release) -> None:
    """Case D2: an empty image that was renamed into place."""
    entry = release.lock.entries_for("b200")[0]
    blob = put_blob(release.store, object_file(entry.symbol, b"no image"))
    release.rewrite(with_entry(release.lock, replace(entry, object=blob)))
    ran = kernelforge("inspect", release.lock_path, *STORE)
    assert ran.code == 1
    assert "there is no device code in it" in ran.out


def test_a_pack_that_needs_more_than_was_recorded_is_told(kernelforge: Kernelforge, release: Release) -> None:
    pack = replace(release.lock.packs["b200"], undefined=("cudaNoSuchFunction",))
    release.rewrite(replace(release.lock, packs={**release.lock.packs, "b200": pack}))
    ran = kernelforge("inspect", release.lock_path, *STORE)
    assert ran.code == 1
    assert "pack of b200: its file needs other libraries or symbols" in ran.out


def test_a_lost_object_costs_one_row(kernelforge: Kernelforge, release: Release) -> None:
    lost = release.lock.entries[0]
    (release.folder / "store" / blob_name(lost.object.stored_digest)).unlink()
    document = inspected(kernelforge, release.lock_path, code=3)
    problems = [one["symbol"] for one in document["objects"] if one["problem"]]
    assert problems == [lost.symbol]
    assert sum(bool(one["images"]) for one in document["objects"]) == 3
    assert "no such object" in " ".join(kernelforge("inspect", release.lock_path, *STORE).out.split())


def test_what_is_stored_as_an_object_but_is_none_costs_one_row(kernelforge: Kernelforge, release: Release) -> None:
    entry = release.lock.entries_for("b200")[0]
    release.rewrite(with_entry(release.lock, replace(entry, object=put_blob(release.store, b"text" * 100))))
    document = inspected(kernelforge, release.lock_path, code=3)
    assert [one["symbol"] for one in document["objects"] if "ELF" in one["problem"]] == [entry.symbol]


def test_only_some_objects(kernelforge: Kernelforge, release: Release) -> None:
    entry = release.lock.entries[0]
    document = inspected(kernelforge, release.lock_path, "--symbol", entry.symbol)
    assert {one["symbol"] for one in document["objects"]} == {entry.symbol}
    assert document["packs"] == []
    assert len(inspected(kernelforge, release.lock_path, "--kernel", "Copy")["objects"]) == 4
    ran = kernelforge("inspect", release.lock_path, *STORE, "--kernel", "QkNorm")
    assert ran.code == 2
    assert "tests.kernel_family:Copy" in ran.err


def test_files_on_disk(kernelforge: Kernelforge, release: Release) -> None:
    image = device_image("sm_103a", registers=77, spill_bytes=16)
    (release.folder / "image.cubin").write_bytes(image)
    (release.folder / "object.o").write_bytes(object_file("alone", image))
    for name, kind in (("image.cubin", "cubin"), ("object.o", "object")):
        document = inspected(kernelforge, release.folder / name)
        (found,) = document["images"]
        assert (document["kind"], found["arch"], found["registers"], found["spill_bytes"]) == (kind, "sm_103a", 77, 16)
        assert found["digest"] == str(Digest.of(image))
    ran = kernelforge("inspect", "object.o")
    assert "object.o: object" in ran.out
    assert "1 kernel (alone)" in ran.out


def test_a_pack_in_the_cache(kernelforge: Kernelforge, release: Release) -> None:
    kernelforge("pull", release.lock_path, *STORE, "--trust-file", "--cache", "cache", "--device", "b200")
    (file,) = (release.folder / "cache" / "packs").iterdir()
    document = inspected(kernelforge, file)
    assert document["kind"] == "library"
    assert [image["arch"] for image in document["images"]] == ["sm_100a"] * 2


@pytest.mark.parametrize("data", [b"", b"text", b"\x7fELF", b"\x7fELF\x02\x01\x01" + b"\0" * 57])
def test_what_is_neither_lockfile_nor_elf_is_refused(kernelforge: Kernelforge, release: Release, data: bytes) -> None:
    (release.folder / "thing").write_bytes(data)
    ran = kernelforge("inspect", "thing")
    assert ran.code == 2
    assert "thing" in ran.err


def test_a_missing_file_is_bad_input(kernelforge: Kernelforge) -> None:
    assert kernelforge("inspect", "no-such.lock.json").code == 2


@pytest.mark.slow
def test_a_compiled_object_holds_the_cubin_that_the_compiler_gave(
    kernelforge: Kernelforge, h200: DeviceProfile, tmp_path: Path
) -> None:
    """The image is looked for in the object: found, it must be the compiler's own, byte for byte."""
    (tmp_path / "work").mkdir()
    finished = compile_all(requests_of("Copy"), [h200], tmp_path / "work")[("Copy", Target("sm_90a").arch)]
    cubin = (finished.folder / CUBIN_FILE).read_bytes()
    document = inspected(kernelforge, finished.folder / OBJECT_FILE)
    (image,) = document["images"]
    assert image["digest"] == str(Digest.of(cubin))
    assert image["registers"] == read_cubin(cubin).registers > 0
