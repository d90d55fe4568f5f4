"""Packs: what they export, what they need, and that their bytes follow from the recipe alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelforge.builder.host_object import library_symbols, object_symbols
from kernelforge.builder.job import OBJECT_FILE
from kernelforge.builder.link import find_linker
from kernelforge.builder.preload_code import PRELOAD_ENTRY
from kernelforge.device import DeviceProfile
from kernelforge.digest import Digest
from kernelforge.errors import ToolchainError
from kernelforge.target import Target
from tests.builder.compiling import compile_all, requests_of

pytestmark = pytest.mark.slow

TARGET = Target("sm_90a")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bytes]]:
    from kernelforge.device import Fact

    h200 = DeviceProfile("h200-test", "sm_90a", {"num_sms": Fact(132, "made up for a test")})
    results = compile_all(requests_of("Copy", "Untidy"), [h200], tmp_path_factory.mktemp("objects"))
    return [(one.job.symbol, (one.folder / OBJECT_FILE).read_bytes()) for one in results.values()]


def test_an_object_offers_its_symbol_only(objects: list[tuple[str, bytes]]) -> None:
    for symbol, data in objects:
        assert object_symbols(data).entries == {symbol}


def test_a_pack_exports_entries_and_needs_what_a_pod_has(objects: list[tuple[str, bytes]], tmp_path: Path) -> None:
    linked = find_linker(TARGET).link(objects, tmp_path)
    symbols = library_symbols(linked.library)
    assert symbols.entries == {PRELOAD_ENTRY, *(symbol for symbol, _ in objects)}
    assert linked.needed == ("libcudart.so.13", "libtvm_ffi.so")
    assert "TVMFFIEnvGetStream" in linked.undefined
    # NVIDIA's runtime and our shim are inside.
    assert not {name for name in linked.undefined if name.startswith(("CuteDSLRT", "_cuda", "cuda_dialect"))}


def test_a_pack_is_the_same_from_any_folder_and_order(objects: list[tuple[str, bytes]], tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "some-where-else"]
    for folder in folders:
        folder.mkdir()
    linker = find_linker(TARGET)
    first = linker.link(objects, folders[0])
    second = linker.link(list(reversed(objects)), folders[1])
    assert first.library == second.library


def test_a_pack_holds_no_path_of_the_machine(objects: list[tuple[str, bytes]], tmp_path: Path) -> None:
    library = find_linker(TARGET).link(objects, tmp_path).library
    assert str(tmp_path).encode() not in library
    assert str(Path(__file__).parents[2]).encode() not in library


def test_the_recipe_follows_what_decides_the_bytes() -> None:
    linker = find_linker(TARGET)
    a, b = ("kf_a", Digest.of(b"a")), ("kf_b", Digest.of(b"b"))
    assert linker.recipe([a, b]) == linker.recipe([b, a])
    assert linker.recipe([a]) != linker.recipe([a, b])
    assert linker.recipe([a]) != linker.recipe([("kf_a", Digest.of(b"other"))])
    assert linker.recipe([a]) != find_linker(Target("sm_100a")).recipe([a])


def test_a_damaged_object_is_an_error_with_the_linkers_words(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"ld\.lld failed"):
        find_linker(TARGET).link([("kf_a", b"no object")], tmp_path)


def test_an_absent_flavour_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelforge.builder.link.util.find_spec", lambda name: None)
    with pytest.raises(ToolchainError, match=r"kernelforge\[build\]"):
        find_linker(TARGET)
