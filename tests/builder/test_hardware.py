"""What a kernel is told about the device comes from its key; what is not in it is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kernelforge.builder.hardware import KeyAnswers, architecture_facts
from kernelforge.builder.job import LOG_FILE
from kernelforge.device import DeviceProfile, Fact
from kernelforge.errors import UnknownFact
from kernelforge.manifest.devices import load_profile, profile_names, profiles_folder
from kernelforge.request import KernelRequest
from tests.builder.compiling import compile_all


@dataclass(frozen=True)
class Key:
    num_sms: int = 114
    max_active_clusters: Any = field(default=(2, 57))


def test_a_field_of_the_key_answers() -> None:
    answers = KeyAnswers("sm_90a", Key())
    assert (answers.number("num_sms"), answers.max_active_clusters(2)) == (114, 57)


@pytest.mark.parametrize("clusters", [((1, 114), (2, 57)), {"1": 114, "2": 57}, {2: 57}])
def test_clusters_may_be_pairs_or_a_mapping(clusters: object) -> None:
    assert KeyAnswers("sm_90a", Key(max_active_clusters=clusters)).max_active_clusters(2) == 57


@pytest.mark.parametrize("clusters", [57, "2", (57,)])
def test_clusters_of_an_unknown_size_answer_nothing(clusters: object) -> None:
    with pytest.raises(UnknownFact, match="for which cluster size"):
        KeyAnswers("sm_90a", Key(max_active_clusters=clusters)).max_active_clusters(2)


def test_another_cluster_size_is_refused_with_what_to_write() -> None:
    with pytest.raises(UnknownFact, match="max_active_clusters of size 4") as caught:
        KeyAnswers("sm_90a", Key()).max_active_clusters(4)
    assert "self.device.max_active_clusters['4']" in caught.value.hint


@pytest.mark.parametrize("fact", ["l2_bytes", "memory_bytes", "num_sms"])
def test_what_the_key_does_not_say_is_refused(fact: str) -> None:
    with pytest.raises(UnknownFact, match=fact):
        KeyAnswers("sm_90a", None).number(fact)


@pytest.mark.parametrize("name", profile_names())
def test_what_an_architecture_fixes_is_what_its_profiles_say(name: str) -> None:
    """Otherwise a kernel would be told something else than `dispatch` is."""
    profile = load_profile(profiles_folder() / f"{name}.yaml")
    fixed = architecture_facts(profile.arch)
    stated = {fact: profile.facts[fact].value for fact in fixed if fact in profile.facts}
    assert stated == {fact: fixed[fact] for fact in stated}
    assert stated, "a profile that states none of them proves nothing"


@pytest.mark.slow
def test_a_third_partys_persistent_kernel_is_built_for_each_device(tmp_path: Path) -> None:
    """Unchanged code, two products of one architecture, no GPU."""
    request = KernelRequest("tests.persistent_kernel:Persistent", {"width": 32})
    for sms, clusters in ((132, 66), (114, 57)):
        facts = {"num_sms": Fact(sms, "a test"), "max_active_clusters": Fact({"2": clusters}, "a test")}
        folder = tmp_path / str(sms)
        folder.mkdir()
        results = compile_all([request], [DeviceProfile("test", "sm_90a", facts)], folder)
        finished = results["Persistent", "sm_90a"]
        assert finished.failure is None, finished.failure
        told = f"told: {clusters} clusters, {sms} and {sms} SMs, 9\n"
        assert told in (finished.folder / LOG_FILE).read_text()
