"""Which folder is the cache, for the environments that pods really have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelforge.loader.options import Options

OTHER_SYSTEMS = {
    "VLLM_CACHE_ROOT": "/other",
    "TRITON_CACHE_DIR": "/other",
    "TORCHINDUCTOR_CACHE_DIR": "/other",
    "FLASHINFER_WORKSPACE_BASE": "/other",
    "FLASHINFER_CUBIN_DIR": "/other",
    "DG_JIT_CACHE_DIR": "/other",
    "CUTE_DSL_CACHE_DIR": "/other",
    "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": "/other",
    "CUDA_CACHE_PATH": "/other",
}
EVERYTHING = {**OTHER_SYSTEMS, "KERNELFORGE_CACHE": "/ours", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/pod"}


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in EVERYTHING.items() if name not in names}


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        pytest.param(EVERYTHING, "/ours", id="ours before the shared ones"),
        pytest.param(without("KERNELFORGE_CACHE"), "/xdg/kernelforge", id="xdg before home"),
        pytest.param(without("KERNELFORGE_CACHE", "XDG_CACHE_HOME"), "/home/pod/.cache/kernelforge", id="home"),
        pytest.param(OTHER_SYSTEMS, None, id="caches of other systems are theirs"),
        pytest.param({}, None, id="empty environment"),
        pytest.param({**EVERYTHING, "KERNELFORGE_CACHE": ""}, "/xdg/kernelforge", id="empty is unset"),
        pytest.param({"XDG_CACHE_HOME": "cache", "HOME": "/h"}, "/h/.cache/kernelforge", id="relative xdg"),
        pytest.param({"HOME": "."}, None, id="relative home"),
        pytest.param({"HOME": "/"}, "/.cache/kernelforge", id="home of a random uid"),
    ],
)
def test_precedence(environ: dict[str, str], folder: str | None) -> None:
    assert Options.from_environment(environ).cache_folder == (None if folder is None else Path(folder))


def test_an_argument_wins_over_every_variable() -> None:
    options = Options.from_environment(EVERYTHING, cache="/argument")
    assert options == Options(Path("/argument"), "cache=")


def test_relative_folders_of_the_caller_are_those_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Options.from_environment({}, cache="c").cache_folder == tmp_path / "c"
    assert Options.from_environment({"KERNELFORGE_CACHE": "k"}).cache_folder == tmp_path / "k"


def test_mounts_keep_their_order_and_an_argument_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"KERNELFORGE_MOUNTS": os.pathsep.join(["/b", "", "/a"])}
    monkeypatch.chdir(tmp_path)
    assert Options.from_environment(environ).mounts == (Path("/b"), Path("/a"))
    assert Options.from_environment(environ, mounts=["c"]).mounts == (tmp_path / "c",)
    assert Options.from_environment(environ, mounts=[]).mounts == ()
    assert Options.from_environment({"KERNELFORGE_MOUNTS": ""}).mounts == ()
