"""What stops which attack: the table in ``registry/FORMAT.md``, and the tests of its rows that belong to no room."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kernelforge.errors import ObjectCorrupt
from kernelforge.store.blobs import get_blob, put_blob
from kernelforge.store.layout import blob_name
from kernelforge.store.memory import MemoryStore

ROOT = Path(__file__).parents[1]
REQUIRED = (
    "altered blob, swapped blobs, altered lock, foreign key, rollback, expired ref, zstd bomb, truncated frame, "
    "bundle with `../`, bundle with absolute names, bundle with duplicates, bundle with a symlink, "
    "bundle with oversized members, bundle with extra members, action poisoning, pickle anywhere, YAML tag anywhere"
)
RUN_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
UNSAFE_LOADERS = {"load", "load_all", "full_load", "unsafe_load", "UnsafeLoader", "FullLoader", "Loader"}


def rows() -> dict[str, str]:
    """Attack -> its test, from the table."""
    table = (ROOT / "registry" / "FORMAT.md").read_text().partition("## Attacks")[2]
    found = re.findall(r"^\| ([^|]+) \| [^|]+ \| `([^`|]+)` \|$", table, re.MULTILINE)
    return {attack.strip(): test for attack, test in found}


def test_every_attack_has_its_row() -> None:
    assert set(rows()) == set(REQUIRED.split(", "))


@pytest.mark.parametrize("attack", sorted(rows()))
def test_every_row_has_its_test(attack: str) -> None:
    file, _, name = rows()[attack].partition("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def in_the_place_of(store: MemoryStore, name: str, data: bytes) -> None:
    store.delete(name)
    store.create(name, data)


def test_an_altered_blob_is_refused() -> None:
    store = MemoryStore()
    descriptor = put_blob(store, b"kernel" * 1000, compress=False)
    in_the_place_of(store, blob_name(descriptor.stored_digest), b"Kernel" * 1000)
    with pytest.raises(ObjectCorrupt, match="not those that the name promises"):
        get_blob(store, descriptor)


def test_swapped_blobs_are_refused() -> None:
    store = MemoryStore()
    contents = (b"one" * 1000, b"two" * 1000)
    both = [put_blob(store, content, compress=False) for content in contents]
    for descriptor, content in zip(both, reversed(contents), strict=True):
        in_the_place_of(store, blob_name(descriptor.stored_digest), content)
    for descriptor in both:
        with pytest.raises(ObjectCorrupt, match="not those that the name promises"):
            get_blob(store, descriptor)


def modules(folder: str = "kernelforge") -> list[tuple[Path, ast.Module]]:
    found = [(path, ast.parse(path.read_text())) for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(found) > 10
    return found


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_pods_read_no_build_record() -> None:
    """Anyone whom CI lets build may write one; so the room of pods does not even import what reads them."""
    readers = [path for path, tree in modules("kernelforge/loader") if "kernelforge.store.actions" in imported(tree)]
    assert readers == []


def test_nothing_that_runs_code_is_read() -> None:
    for path, tree in modules():
        assert not {name.partition(".")[0] for name in imported(tree)} & RUN_CODE, path
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "yaml":
                assert node.attr not in UNSAFE_LOADERS, f"{path}:{node.lineno}"
