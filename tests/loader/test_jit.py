"""The policy 'jit', with compile functions whose packs are ready: what is compiled, kept, counted and written down."""

from __future__ import annotations

import importlib.metadata
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelforge.contract import kernel_name_of_key, symbol_of
from kernelforge.errors import KernelMissing, PackCorrupt, ToolchainError
from kernelforge.jit_request import JitRequest
from kernelforge.loader import fresh_process, jit
from kernelforge.loader.jit_cache import identity_of
from kernelforge.loader.kernel_set import KernelSet
from kernelforge.misses import FILE_SUFFIX, Misses, merged
from tests.loader.conftest import Release
from tests.loader.fake_release import KEYS, TARGET, compile_pack
from tests.loader.jit_compilers import compiles, prepared_key
from tests.loader.scale import Scale
from tests.store.conformance import at_once

FUNCTIONS = "tests.loader.jit_compilers"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The folder of the missing key."""
    return tmp_path / "world"


@pytest.fixture
def key(world: Path) -> Scale.CompileKey:
    return prepared_key(world)


def load_jit(release: Release, function: str = "prepared", **options: Any) -> KernelSet:
    return release.load(policy="jit", compile_missing=f"{FUNCTIONS}:{function}", **options)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class TestMiss:
    def test_a_missing_key_is_compiled_at_its_first_call_with_one_warning(
        self, release: Release, key: Scale.CompileKey, world: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """H2: a fleet that compiles at run time must be able to see it, and what for."""
        kernels = load_jit(release)
        assert (compiles(world), kernels.stats().jit) == (0, 0)
        assert kernels[key](7) == 7
        assert kernels[key] is kernels[key]
        assert [kernels[known](10) for known in KEYS] == [10, 20, 30]
        stats = kernels.stats()
        assert (compiles(world), stats.jit, stats.misses, stats.hits) == (1, 1, 1, 3)
        assert "jit" in stats.seconds
        (warning,) = warnings(caplog)
        assert "tests.loader.scale:Scale" in warning
        assert "head_dim=96" in warning

    def test_required_keys_are_compiled_before_load_returns(
        self, release: Release, key: Scale.CompileKey, world: Path
    ) -> None:
        kernels = load_jit(release, require={Scale: [*KEYS, key]})
        assert (compiles(world), kernels.stats().jit, kernels.stats().hits) == (1, 1, 0)

    def test_strict_decides_at_start_up_and_compiles_nothing(
        self, release: Release, key: Scale.CompileKey, world: Path
    ) -> None:
        """H2: the same missing kernel is an error at start-up, not at the first request."""
        with pytest.raises(KernelMissing, match="head_dim=96"):
            release.load(require={Scale: [key]})
        assert compiles(world) == 0
        assert not (release.cache / "misses").exists()

    def test_a_class_that_the_lockfile_lacks_is_compiled_too(self, release: Release, world: Path) -> None:
        from tests.loader import other_scale

        key = prepared_key(world, kernel=other_scale.Late)
        kernels = load_jit(release)
        assert other_scale.Late(kernels)(dtype=str(world), number=5) == 5
        assert kernels[key](6) == 6

    def test_threads_that_ask_together_cause_one_compile(
        self, release: Release, key: Scale.CompileKey, world: Path
    ) -> None:
        kernels = load_jit(release, "slow")
        assert at_once([lambda: kernels[key](3)] * 4) == [3] * 4
        assert (compiles(world), kernels.stats().jit) == (1, 1)


class TestOncePerNode:
    def test_the_next_process_takes_over_the_result(self, release: Release, key: Scale.CompileKey, world: Path) -> None:
        load_jit(release)[key]
        second = load_jit(release)
        assert second[key](7) == 7
        assert (compiles(world), second.stats().jit) == (1, 1)

    def test_ranks_that_miss_together_cause_one_compile(
        self, release: Release, key: Scale.CompileKey, world: Path
    ) -> None:
        ranks = [load_jit(release, "slow") for _ in range(4)]
        assert at_once([lambda rank=rank: rank[key](2) for rank in ranks]) == [2] * 4
        assert compiles(world) == 1

    def test_a_damaged_result_is_never_opened_but_made_again(
        self, release: Release, key: Scale.CompileKey, world: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        load_jit(release)[key]
        (kept,) = [path for path in release.cached.parent.glob("*.so") if path != release.cached]
        whole = kept.read_bytes()
        kept.unlink()  # this process has it open
        kept.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert load_jit(release)[key](7) == 7
        assert compiles(world) == 2
        assert kept.read_bytes() == whole
        assert any("compiled again" in warning for warning in warnings(caplog))

    @pytest.mark.parametrize("damage", [b"", b"{}", b'{"schema": "kernelforge.jit/99"}', b"\xff"])
    def test_a_damaged_record_is_made_again(
        self, release: Release, key: Scale.CompileKey, world: Path, damage: bytes
    ) -> None:
        load_jit(release)[key]
        (record,) = release.cached.parent.glob("*.jit.json")
        record.write_bytes(damage)
        assert load_jit(release)[key](7) == 7
        assert compiles(world) == 2

    def test_another_function_gets_nothing_of_the_first(
        self, release: Release, key: Scale.CompileKey, world: Path
    ) -> None:
        load_jit(release)[key]
        load_jit(release, "slow")[key]
        assert compiles(world) == 2

    def test_without_a_place_to_keep_it_the_kernel_still_runs(
        self, release: Release, key: Scale.CompileKey, world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").touch()
        kernels = load_jit(release, cache=tmp_path / "file" / "cache")
        assert kernels[key](7) == 7
        assert any("not kept" in warning for warning in warnings(caplog))
        assert any("not written down" in warning for warning in warnings(caplog))


class TestIdentity:
    REQUEST = JitRequest("tests.loader.scale:Scale", {"head_dim": 96}, "kf_Scale_1", TARGET, "/anywhere", 600.0)

    def test_is_stable_and_ignores_where_the_work_is_done(self) -> None:
        here = identity_of(self.REQUEST, "m:f")
        assert here == identity_of(replace(self.REQUEST, folder="/elsewhere", limit_s=1.0), "m:f")

    @pytest.mark.parametrize(
        "changes",
        [
            {"kernel": "tests.loader.other_scale:Late"},
            {"symbol": "kf_Scale_2"},
            {"target": replace(TARGET, arch="sm_100a")},
            {"target": replace(TARGET, cuda="cu12")},
        ],
        ids=["kernel and its code", "compile key", "architecture", "CUDA flavour"],
    )
    def test_differs_with(self, changes: dict[str, Any]) -> None:
        assert identity_of(replace(self.REQUEST, **changes), "m:f") != identity_of(self.REQUEST, "m:f")

    def test_differs_with_the_function(self) -> None:
        assert identity_of(self.REQUEST, "m:f") != identity_of(self.REQUEST, "m:g")

    def test_differs_with_whatever_is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A pod image with another compiler on the same volume must not get the old one's kernels."""
        before = identity_of(self.REQUEST, "m:f")
        everything = list(importlib.metadata.distributions())
        monkeypatch.setattr(importlib.metadata, "distributions", lambda: everything[1:])
        assert identity_of(self.REQUEST, "m:f") != before


class TestFailure:
    @pytest.mark.parametrize(
        ("function", "words"),
        [
            ("fails", "a kernel: width 96 is not supported"),
            ("raises", "ZeroDivisionError: division by zero in a kernel"),
            ("dies", "left no answer.*the last words of a compiler"),
            ("answers_nonsense", "not the answer of a compile function"),
            ("absent", "has no function 'absent'"),
        ],
    )
    def test_is_a_typed_error_that_costs_one_compile(
        self, release: Release, key: Scale.CompileKey, world: Path, function: str, words: str
    ) -> None:
        """Tried again at every request, a kernel that does not compile would take the server down."""
        kernels = load_jit(release, function)
        for _ in range(2):
            with pytest.raises(ToolchainError, match=words) as failure:
                kernels[key]
        assert failure.value.where == "tests.loader.scale:Scale"
        assert compiles(world) == (0 if function == "absent" else 1)
        assert kernels.stats().jit == 0
        assert kernels.stats().errors == {"ToolchainError": 1}
        assert kernels[KEYS[0]](1) == 1
        assert not list(release.cached.parent.glob("*.jit.json"))

    def test_a_compile_that_hangs_is_ended(
        self, release: Release, key: Scale.CompileKey, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(jit, "_LIMIT_S", 0.2)
        monkeypatch.setattr(fresh_process, "_AROUND_S", 2.0)
        with pytest.raises(ToolchainError, match=r"longer than the limit of 0\.2 s"):
            load_jit(release, "hangs")[key]

    def test_code_for_another_architecture_is_refused_as_in_any_pack(self, release: Release, world: Path) -> None:
        key = prepared_key(world, arch="sm_100a")
        with pytest.raises(PackCorrupt, match=r"sm_90a.*sm_100a"):
            load_jit(release)[key]

    def test_a_pack_without_the_symbol_is_refused(self, release: Release, key: Scale.CompileKey, world: Path) -> None:
        compile_pack(world, ["kf_something_else"])
        with pytest.raises(PackCorrupt, match=symbol_of(kernel_name_of_key(key), key)):
            load_jit(release)[key]


class TestWrittenDown:
    def test_every_miss_is_in_the_document_of_its_process(
        self, release: Release, key: Scale.CompileKey, tmp_path: Path, world: Path
    ) -> None:
        other = prepared_key(tmp_path / "other", head_dim=97)
        for _ in range(2):  # two ranks
            kernels = load_jit(release, misses=tmp_path / "misses")
            kernels[key], kernels[key], kernels[other]
        files = sorted((tmp_path / "misses").iterdir())
        assert len(files) == 2
        assert all(file.name.endswith(FILE_SUFFIX) for file in files)
        documents = [Misses.parse(file.read_bytes(), where=str(file)) for file in files]
        assert {document.lockfile for document in documents} == {release.lock.digest}
        found = merged(documents)
        assert {one.compile_key["head_dim"]: one.count for one in found} == {96: 2, 97: 2}
        assert {(one.kernel, one.device, one.target) for one in found} == {
            ("tests.loader.scale:Scale", "h200-sxm", TARGET)
        }
        assert {"head_dim": 96, "dtype": str(world), "has_offset": False, "eps": 0.0} in [
            one.compile_key for one in found
        ]
        assert all(one.seconds > 0 for one in found)

    def test_by_default_it_is_in_the_cache_folder(self, release: Release, key: Scale.CompileKey) -> None:
        load_jit(release)[key]
        assert len(list((release.cache / "misses").glob(f"*{FILE_SUFFIX}"))) == 1

    def test_a_key_that_does_not_compile_is_written_down_too(
        self, release: Release, key: Scale.CompileKey, tmp_path: Path
    ) -> None:
        with pytest.raises(ToolchainError):
            load_jit(release, "fails", misses=tmp_path / "misses", require={Scale: [key]})
        assert len(list((tmp_path / "misses").iterdir())) == 1

    def test_nothing_is_written_without_a_miss(self, release: Release, tmp_path: Path) -> None:
        load_jit(release, misses=tmp_path / "misses", require={Scale: KEYS})
        assert not (tmp_path / "misses").exists()


def test_the_process_sees_no_gpu_and_none_of_our_variables(
    release: Release, key: Scale.CompileKey, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of the compiler change code and are in no identity; a second CUDA context would cost the pod memory."""
    monkeypatch.setenv("CUTE_DSL_KEEP_PTX", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    load_jit(release, "tells_its_environment")[key]
    seen = json.loads((world / "environment.json").read_text())
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUTE_DSL_KEEP_PTX" not in seen
