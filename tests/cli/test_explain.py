"""The command explain: why these keys, why a miss, what differs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelforge.digest import Digest
from kernelforge.lockfile import Lockfile
from tests.cli.command import write_manifest
from tests.cli.in_process import Kernelforge
from tests.cli.released import Release, make_release

MANIFEST = """
schema: kernelforge.manifest/1
name: tiles
engine: {max_num_batched_tokens: 200}
targets: [h200-sxm]
kernels:
  - kernel: tests.cli.tiles:Tiles
    arguments:
      tokens: {range: [1, {from: engine.max_num_batched_tokens}]}
      dtype: {choices: [bfloat16, float16]}
      hidden: 4096
  - kernel: tests.cli.tiles:Listed
    arguments: {widths: {range: [8, 16], step: 8}}
"""


@pytest.fixture
def tiles(release: Release) -> Path:
    path = release.folder / "tiles.yaml"
    path.write_text(MANIFEST)
    return path


class TestKeys:
    def explained(self, kernelforge: Kernelforge, manifest: Path, kernel: str) -> dict[str, Any]:
        ran = kernelforge("explain", manifest, "--kernel", kernel, "--json")
        assert ran.code == 0, ran.err
        (request,) = json.loads(ran.out)["kernels"]
        return request

    def test_which_points_lead_to_which_key(self, kernelforge: Kernelforge, tiles: Path) -> None:
        """Ranges are runs of the values that were asked for: 1..4, not 1, 2, 3, 4."""
        request = self.explained(kernelforge, tiles, "Tiles")
        assert (request["points"], len(request["keys"])) == (400, 8)
        reached = {
            (key["compile_key"]["tile"], key["compile_key"]["has_tail"]): (key["points"], key["reached_by"])
            for key in request["keys"]
            if key["compile_key"]["dtype"] == "float16"
        }
        between = ", ".join(f"{start}..{start + 14}" for start in range(17, 114, 16))
        assert reached == {
            (1, False): (4, ["tokens 1..4 with dtype='float16'"]),
            (16, True): (120, [f"tokens 5..15, {between}, 129..132 with dtype='float16'"]),
            (16, False): (8, ["tokens 16, 32, 48, 64, 80, 96, 112, 128 with dtype='float16'"]),
            (64, False): (68, ["tokens 133..200 with dtype='float16'"]),
        }

    def test_every_point_is_counted_once(self, kernelforge: Kernelforge, tiles: Path) -> None:
        request = self.explained(kernelforge, tiles, "Tiles")
        assert sum(key["points"] for key in request["keys"]) == request["points"]

    def test_arguments_have_their_origins(self, kernelforge: Kernelforge, tiles: Path) -> None:
        request = self.explained(kernelforge, tiles, "Tiles")
        arguments = {each["name"]: each for each in request["arguments"]}
        assert arguments["tokens"]["value"] == "1..200"
        assert "engine.max_num_batched_tokens" in arguments["tokens"]["origin"]
        assert arguments["dtype"]["value"] == "'bfloat16' | 'float16'"
        assert arguments["hidden"]["value"] == "4096"
        assert "tiles.yaml:" in arguments["hidden"]["origin"]

    def test_only_device_facts_that_were_asked_for_are_named(self, kernelforge: Kernelforge, tiles: Path) -> None:
        facts = self.explained(kernelforge, tiles, "Tiles")["facts"]
        assert list(facts) == ["num_sms"]
        assert facts["num_sms"]["value"] == 132
        assert facts["num_sms"]["source"]
        assert self.explained(kernelforge, tiles, "Listed")["facts"] == {}

    def test_a_key_that_dispatch_never_made_says_so(self, kernelforge: Kernelforge, tiles: Path) -> None:
        keys = {key["compile_key"]["width"]: key for key in self.explained(kernelforge, tiles, "Listed")["keys"]}
        assert (keys[7]["points"], keys[7]["reached_by"]) == (0, [])
        assert keys[8]["reached_by"] == ["width 8"]
        assert "get_warmup_keys made it" in kernelforge("explain", tiles, "--kernel", "Listed").out

    def test_text_for_people(self, kernelforge: Kernelforge, tiles: Path) -> None:
        ran = kernelforge("explain", tiles)
        assert ran.code == 0, ran.err
        assert "on h200-sxm (sm_90a/x86_64-linux-gnu/cu13): 400 -> 8" in ran.out
        assert "from 4 points: tokens 1..4 with dtype='bfloat16'" in ran.out
        assert "widths = 8..16 step 8" in ran.out

    def test_the_keys_are_those_of_the_plan(self, kernelforge: Kernelforge, release: Release) -> None:
        """Watching dispatch must not change what it does."""
        planned = json.loads(kernelforge("plan", release.manifest, "--store", "file:store", "--json").out)
        ran = kernelforge("explain", release.manifest, "--json")
        explained = [key["compile_key"] for each in json.loads(ran.out)["kernels"] for key in each["keys"]]
        assert sorted(map(str, explained)) == sorted(str(entry["compile_key"]) for entry in planned["entries"])

    def test_an_unknown_kernel_is_refused_with_those_there_are(self, kernelforge: Kernelforge, tiles: Path) -> None:
        ran = kernelforge("explain", tiles, "--kernel", "QkNorm")
        assert ran.code == 2
        assert "tests.cli.tiles:Listed, tests.cli.tiles:Tiles" in ran.err


class TestMisses:
    def test_hits_need_no_explanation(self, kernelforge: Kernelforge, release: Release) -> None:
        ran = kernelforge("explain", release.manifest, "--misses", "--store", "file:store")
        assert ran.code == 0, ran.err
        assert "0 of 4 keys would not be reused" in ran.out

    def test_a_changed_compiler_is_the_reason_of_all_keys(self, kernelforge: Kernelforge, release: Release) -> None:
        """Case H1: one reason with both versions, and the keys that have it."""
        shutil.rmtree(release.folder / "store" / "v1" / "dev")
        toolchain = {**release.lock.toolchains["cu13"], "nvidia-cutlass-dsl": "4.7.1"}
        older = tuple(replace(entry, key_digest=Digest.of(entry.symbol.encode())) for entry in release.lock.entries)
        release.rewrite(replace(release.lock, toolchains={"cu13": toolchain}, entries=older))
        options = ("--misses", "--store", "file:store")
        ran = kernelforge("explain", release.manifest, *options)
        assert ran.code == 0, ran.err
        assert "4 of 4 keys would not be reused" in ran.out
        assert "miss: toolchain nvidia-cutlass-dsl 4.7.1 -> " in ran.out
        assert "(2 entries)" in ran.out
        misses = json.loads(kernelforge("explain", release.manifest, *options, "--json").out)["misses"]
        assert len({miss["reason"] for miss in misses}) == 1

    def test_a_store_that_cannot_answer_is_not_called_a_miss(self, kernelforge: Kernelforge, release: Release) -> None:
        (release.folder / "elsewhere").mkdir()
        (release.folder / "elsewhere" / "v1").write_text("a file where a folder must be")
        ran = kernelforge("explain", release.manifest, "--misses", "--store", "file:elsewhere")
        assert ran.code == 3
        assert "store_error: " in ran.out
        assert "miss: " not in ran.out


class TestLockfiles:
    def differ(self, kernelforge: Kernelforge, release: Release, other: Lockfile) -> dict[str, Any]:
        (release.folder / "other.lock.json").write_bytes(other.to_bytes())
        ran = kernelforge("explain", release.lock_path, "other.lock.json", "--json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    def test_the_same_build_somewhere_else_shows_no_differing_field(
        self, kernelforge: Kernelforge, release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Case B4: another folder, another home, another address of the pod."""
        monkeypatch.setenv("HOME", "/nonexistent")
        monkeypatch.setenv("POD_IP", "10.9.8.7")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        kernel = ("Copy", "{width: {choices: [64, 32]}}")
        other = make_release(elsewhere, kernel, targets="[b200, h200-sxm]")
        ran = kernelforge("explain", release.lock_path, other.lock_path)
        assert ran.code == 0, ran.err
        assert ran.out == "no differing field\n"

    def test_keys_that_came_and_went(self, kernelforge: Kernelforge, release: Release) -> None:
        """Another value of a field is another key: the new one says which field of which old one differs."""
        kept, *gone = release.lock.entries_for("b200")
        other = replace(release.lock, entries=(*release.lock.entries_for("h200-sxm"), kept))
        keys = self.differ(kernelforge, release, other)["keys"]
        assert [(key["change"], key["symbol"]) for key in keys] == [("removed", gone[0].symbol)]
        (release.folder / "small.yaml").unlink()
        back = kernelforge("explain", "other.lock.json", release.lock_path, "--json")
        (added,) = json.loads(back.out)["keys"]
        assert (added["change"], added["symbol"]) == ("added", gone[0].symbol)
        old, new = kept.compile_key["width"], gone[0].compile_key["width"]
        assert added["reasons"] == [f"compile key field width {old} -> {new}"]

    def test_a_changed_source_is_named(self, kernelforge: Kernelforge, release: Release) -> None:
        kernels = {}
        for name, kernel in release.lock.kernels.items():
            part = next(iter(kernel.sources))
            sources = {**kernel.sources, part: str(Digest.of(b"edited"))}
            kernels[name] = replace(kernel, source_fingerprint=Digest.of(b"edited"), sources=sources)
        entries = tuple(replace(entry, key_digest=Digest.of(entry.symbol.encode())) for entry in release.lock.entries)
        difference = self.differ(kernelforge, release, replace(release.lock, kernels=kernels, entries=entries))
        assert {key["change"] for key in difference["keys"]} == {"rebuilt"}
        assert {tuple(key["reasons"]) for key in difference["keys"]} == {(f"source {part} changed",)}
        assert any("source_fingerprint" in text for text in difference["release"])

    def test_the_same_key_with_another_object_is_told_apart(self, kernelforge: Kernelforge, release: Release) -> None:
        """Not deterministic, or tampered with: in any case not 'no differing field'."""
        first, *rest = release.lock.entries
        swapped = replace(first, object=rest[0].object)
        keys = self.differ(kernelforge, release, replace(release.lock, entries=(swapped, *rest)))["keys"]
        assert [(key["change"], key["symbol"]) for key in keys] == [("replaced", first.symbol)]
        assert "the same key has another object" in keys[0]["reasons"]

    def test_digests_that_nothing_explains_are_not_passed_over(
        self, kernelforge: Kernelforge, release: Release
    ) -> None:
        first, *rest = release.lock.entries
        changed = replace(first, key_digest=Digest.of(b"other"))
        (key,) = self.differ(kernelforge, release, replace(release.lock, entries=(changed, *rest)))["keys"]
        assert key["change"] == "rebuilt"
        assert "different versions of kernelforge" in key["reasons"][0]

    def test_what_is_not_in_a_key_is_told_too(self, kernelforge: Kernelforge, release: Release) -> None:
        """Launch code, packs and device facts differ without any key doing so."""
        name, kernel = next(iter(release.lock.kernels.items()))
        pack = release.lock.packs["b200"]
        b200 = release.lock.devices["b200"]
        facts = {**b200.facts, "num_sms": replace(b200.facts["num_sms"], source="another document")}
        other = replace(
            release.lock,
            name="other",
            kernels={name: replace(kernel, launch_fingerprint=Digest.of(b"edited"))},
            packs={**release.lock.packs, "b200": replace(pack, linker="another linker")},
            devices={**release.lock.devices, "b200": replace(b200, facts=facts)},
        )
        difference = self.differ(kernelforge, release, other)
        assert difference["keys"] == []
        told = "\n".join(difference["release"])
        assert "name small -> other" in told
        assert f"kernel {name}: launch_fingerprint" in told
        assert f"pack of b200: linker {pack.linker} -> another linker" in told
        assert "another document" in told

    def test_equal_means_empty_and_different_means_not(self, kernelforge: Kernelforge, release: Release) -> None:
        """Every member of the lockfile is compared: a change of any of them shows."""
        lock = release.lock
        changed = [
            replace(lock, abi="other"),
            replace(lock, contract=lock.contract + 1),
            replace(lock, toolchains={"cu13": {**lock.toolchains["cu13"], "extra": "1"}}),
            replace(lock, entries=lock.entries[1:]),
            replace(lock, packs={**lock.packs, "b200": lock.packs["h200-sxm"]}, entries=lock.entries_for("h200-sxm")),
        ]
        same = self.differ(kernelforge, release, lock)
        assert (same["keys"], same["release"]) == ([], [])
        for other in changed:
            difference = self.differ(kernelforge, release, other)
            assert difference["keys"] or difference["release"], other

    def test_text_for_people(self, kernelforge: Kernelforge, release: Release) -> None:
        other = release.folder / "other.lock.json"
        other.write_bytes(replace(release.lock, entries=release.lock.entries_for("b200")).to_bytes())
        ran = kernelforge("explain", release.lock_path, other)
        assert "removed: 2 keys of tests.kernel_family:Copy for sm_90a/x86_64-linux-gnu/cu13" in ran.out
        assert "width=32" in ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a.lock.json",),
        ("a.lock.json", "b.lock.json", "c.lock.json"),
        ("a.lock.json", "b.lock.json", "--misses"),
        ("a.lock.json", "b.lock.json", "--kernel", "x"),
    ],
)
def test_what_is_no_single_question_is_refused(kernelforge: Kernelforge, arguments: tuple[str, ...]) -> None:
    ran = kernelforge("explain", *arguments)
    assert ran.code == 2
    assert "hint:" in ran.err


def test_a_manifest_with_mistakes_is_bad_input(kernelforge: Kernelforge, release: Release) -> None:
    broken = write_manifest(release.folder, ("Copy", "{widht: 32}"), name="broken")
    ran = kernelforge("explain", broken)
    assert ran.code == 2
    assert "widht" in ran.err
