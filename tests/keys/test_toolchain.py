"""The toolchain as package metadata tells it: exact, complete, and a clear error when part of it is absent."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

import pytest

from kernelforge.errors import ContractError, ToolchainError
from kernelforge.keys.toolchain import Toolchain, check_requires_dsl, installed_toolchain

FAMILY = {
    "nvidia-cutlass-dsl": (
        "4.8.1",
        ["nvidia-cutlass-dsl-libs-base==4.8.1", "nvidia-cutlass-dsl-libs-cu13 ; extra == 'cu13'"],
    ),
    "nvidia-cutlass-dsl-libs-base": ("4.8.1", ["nvidia-cutlass-dsl-libs-core==4.8.1", "protobuf>=4"]),
    "nvidia-cutlass-dsl-libs-core": ("4.8.1.post2", []),
    "nvidia-cutlass-dsl-libs-cu13": ("4.8.1", []),
    "apache-tvm-ffi": ("0.1.15", ["typing-extensions"]),
    "protobuf": ("5.0", []),
}


INSTALLED = Toolchain("cu13", {"nvidia-cutlass-dsl": "4.8.1"})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment in which only the family's metadata is installed."""
    for name, (version, requires) in FAMILY.items():
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {required}" for required in requires)]
        (folder / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n\n")
    standard_library = [sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED")]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *filter(None, standard_library)])
    return tmp_path


def remove(site: Path, name: str) -> None:
    folder = next(site.glob(f"{name.replace('-', '_')}-[0-9]*.dist-info"))
    (folder / "METADATA").unlink()
    folder.rmdir()


def test_every_part_of_the_compiler_is_in_it(site: Path) -> None:
    """A library that is upgraded alone (pods do that) must change the key; what else is installed must not."""
    toolchain = installed_toolchain("cu13")
    versions = {name: version for name, (version, _) in FAMILY.items() if name != "protobuf"}
    assert toolchain == Toolchain("cu13", versions)
    assert toolchain.compiler_version == "4.8.1"


@pytest.mark.parametrize("absent", ["nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-cu13", "apache-tvm-ffi"])
def test_absent_parts_are_named(site: Path, absent: str) -> None:
    """Without the flavour's libraries the compiler would silently take another flavour."""
    remove(site, absent)
    with pytest.raises(ToolchainError, match=absent) as caught:
        installed_toolchain("cu13")
    assert "kernelforge[build]" in caught.value.hint


def test_other_flavour_is_not_a_substitute(site: Path) -> None:
    """cu13 libraries cannot compile for a cu12 target."""
    with pytest.raises(ToolchainError, match="libs-cu12"):
        installed_toolchain("cu12")


def test_real_toolchain_is_read_without_importing_the_compiler() -> None:
    """A second build must take under a second, and the compiler's import alone takes longer."""
    before = set(sys.modules)
    toolchain = installed_toolchain("cu13")
    assert toolchain.versions["nvidia-cutlass-dsl"] == toolchain.versions["nvidia-cutlass-dsl-libs-cu13"]
    assert not {"cutlass", "tvm_ffi", "torch"} & (set(sys.modules) - before)


def test_json_round_trip(site: Path) -> None:
    """Lockfiles and records hold it."""
    toolchain = installed_toolchain("cu13")
    assert Toolchain.from_json(json.loads(json.dumps(toolchain.to_json()))) == toolchain


@pytest.mark.parametrize("required", ["", ">=4.8,<5", "==4.8.1", ">4.7.1"])
def test_required_compiler_is_there(required: str) -> None:
    """No requirement means any version."""
    check_requires_dsl("m:K", required, INSTALLED)


@pytest.mark.parametrize("required", ["<4.8", "==4.7.*", ">=5"])
def test_other_compiler_is_refused(required: str) -> None:
    """A kernel written for 4.7.1 failed only when traced under 4.8.1."""
    with pytest.raises(ContractError) as caught:
        check_requires_dsl("m:K", required, INSTALLED)
    assert "m:K" in caught.value.problem
    assert required in caught.value.problem
    assert "4.8.1" in caught.value.problem


def test_requirement_that_is_none() -> None:
    """A typo in `requires_dsl` must not allow everything."""
    with pytest.raises(ContractError, match="version range"):
        check_requires_dsl("m:K", "4.8 or later", INSTALLED)


def test_pre_releases_count_as_versions() -> None:
    """NVIDIA ships release candidates; `>=4.8` must not refuse 4.9.0rc1."""
    check_requires_dsl("m:K", ">=4.8", Toolchain("cu13", {"nvidia-cutlass-dsl": "4.9.0rc1"}))
