"""Device profiles: where they are found, and what is refused in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelforge.device import FACTS
from kernelforge.errors import InputError, ManifestError
from kernelforge.manifest import find_profile, load_profile, profile_names, profiles_folder

PROFILE = """\
schema: kernelforge.device/1
name: card
arch: sm_90a
facts:
  num_sms: {value: 132, source: measured}
"""


def problems_of(folder: Path, text: str, name: str = "card.yaml") -> list[tuple[int, str, str]]:
    path = folder / name
    path.write_text(text)
    with pytest.raises(ManifestError) as caught:
        load_profile(path)
    return [(problem.line, problem.what, problem.hint) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("written", "what", "hint"),
    [
        ("sm_90", "'sm_90'", "did you mean sm_90a?"),
        ('"9.0"', "'9.0'", "did you mean sm_90a?"),
        ("9.0", "9.0", "did you mean sm_90a?"),
        ("90", "90", "did you mean sm_90a?"),
        ("SM_90A", "'SM_90A'", "did you mean sm_90a?"),
        ("sm90a", "'sm90a'", "did you mean sm_90a?"),
        ("sm_103", "'sm_103'", "did you mean sm_103a?"),
        ("sm_100", "'sm_100'", "did you mean sm_100a?"),
        ("hopper", "'hopper'", "one of: sm_80"),
        ("[sm_90a]", "['sm_90a']", "sm_90a"),
        ("", "None", "one of: sm_80"),
    ],
)
def test_an_architecture_is_refused_with_the_one_that_is_meant(
    tmp_path: Path, written: str, what: str, hint: str
) -> None:
    """sm_90 builds, and crashes in the pod: the instructions that the kernels need are in sm_90a."""
    ((line, said, advice),) = problems_of(tmp_path, PROFILE.replace("sm_90a", written))
    assert line == 3
    assert f"{what} is not a known architecture" in said
    assert hint in advice


def test_a_family_architecture_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text(PROFILE.replace("sm_90a", "sm_100f"))
    assert load_profile(tmp_path / "card.yaml").arch == "sm_100f"


@pytest.mark.parametrize(
    ("fact", "what", "hint"),
    [
        ("num_sm: {value: 132, source: x}", "num_sm is no fact", "did you mean num_sms?"),
        ("l2_bytes: 62914560", "facts.l2_bytes must be a mapping, not 62914560 (a whole number)", "value, source"),
        ("l2_bytes: {value: 62914560}", "facts.l2_bytes.source is missing", "add source: measured"),
        ("l2_bytes: {value: 1, source: ' '}", "facts.l2_bytes.source is empty", "give"),
        ("l2_bytes: {value: 1, source: 2026}", "source must be text, not 2026", 'quote it: "2026"'),
        ("l2_bytes: {value: 1, source: x, unit: B}", "facts.l2_bytes.unit is not a known key", "source, value"),
        ("l2_bytes: {value: 60 MB, source: x}", "facts.l2_bytes is '60 MB'", "a whole number above 0: level 2 cache"),
        ("l2_bytes: {value: true, source: x}", "facts.l2_bytes is True", "a whole number above 0"),
        ("l2_bytes: {value: 0, source: x}", "facts.l2_bytes is 0", "a whole number above 0"),
        ("driver_names: {value: NVIDIA H200, source: x}", "facts.driver_names is 'NVIDIA H200'", "a list of texts"),
        ("driver_names: {value: [], source: x}", "facts.driver_names is []", "a list of texts"),
        ("max_active_clusters: {value: {a: 1}, source: x}", "facts.max_active_clusters is", '{"1": 132'),
        ('max_active_clusters: {value: {"1": x}, source: x}', "facts.max_active_clusters is", '{"1": 132'),
        ("max_active_clusters: {value: {}, source: x}", "facts.max_active_clusters is", '{"1": 132'),
    ],
)
def test_a_fact_needs_the_right_kind_of_value_and_a_source(tmp_path: Path, fact: str, what: str, hint: str) -> None:
    ((line, said, advice),) = problems_of(tmp_path, f"{PROFILE}  {fact}\n")
    assert line == 6
    assert what in said
    assert hint in advice


def test_a_profile_is_named_as_its_file(tmp_path: Path) -> None:
    """Else a look-up by name finds another card's facts."""
    ((line, what, hint),) = problems_of(tmp_path, PROFILE, name="other.yaml")
    assert (line, what, hint) == (2, "the profile card is in other.yaml", "rename it to card.yaml")


def test_a_profile_that_is_one_refused_value_is_no_profile(tmp_path: Path) -> None:
    assert [line for line, _, _ in problems_of(tmp_path, "!!python/name:os.system")] == [1]


def test_all_problems_of_a_profile_at_once(tmp_path: Path) -> None:
    text = PROFILE.replace("device/1", "device/2").replace("sm_90a", "sm_90") + "  x: {value: 1, source: y}\n"
    assert [line for line, _, _ in problems_of(tmp_path, text)] == [1, 3, 6]


def test_a_name_is_looked_up_beside_the_manifest_first(tmp_path: Path) -> None:
    assert find_profile("h200-sxm", tmp_path) == profiles_folder() / "h200-sxm.yaml"
    (tmp_path / "devices").mkdir()
    corrected = tmp_path / "devices" / "h200-sxm.yaml"
    corrected.write_text(PROFILE)
    assert find_profile("h200-sxm", tmp_path) == corrected


def test_a_path_is_relative_to_the_manifest(tmp_path: Path) -> None:
    assert find_profile("cards/card.yaml", tmp_path) == tmp_path / "cards" / "card.yaml"
    assert find_profile("card.yaml", tmp_path) == tmp_path / "card.yaml"
    assert find_profile("/cards/card.yaml", tmp_path) == Path("/cards/card.yaml")


@pytest.mark.parametrize("name", ["h100", "H200-SXM", "sm_90a", "x" * 5000, "a\x00b", "", ".", ".."])
def test_an_unknown_name_lists_what_there_is(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        find_profile(name, tmp_path)
    assert any(known in caught.value.hint for known in profile_names())


def test_every_declared_fact_has_a_form(tmp_path: Path) -> None:
    """A fact that is added to FACTS with a new type would fail only in the first profile that states it."""
    for name in FACTS:
        (line, _, _), *_ = problems_of(
            tmp_path, f"{PROFILE.partition('  num_sms')[0]}  {name}: {{value: {{}}, source: x}}\n"
        )
        assert line == 5
