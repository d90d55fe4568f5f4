"""A missing key is answered with the keys next to it and the fields that differ."""

from __future__ import annotations

from kernelforge.encoding import fields_json
from kernelforge.loader.missing import kernel_missing
from tests.loader.fake_release import locked_entry
from tests.loader.scale import Other, Scale

KEYS = [Scale.CompileKey(head_dim=64), Scale.CompileKey(head_dim=128), Scale.CompileKey(head_dim=256)]
ENTRIES = [*map(locked_entry, KEYS), locked_entry(Other.CompileKey(head_dim=96))]


def text_for(key: Scale.CompileKey) -> str:
    return kernel_missing([("tests.loader.scale:Scale", fields_json(key, where="key"))], ENTRIES).problem


def near(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "near:" in line]


def test_the_nearest_come_first_with_both_values() -> None:
    assert near(text_for(Scale.CompileKey(head_dim=100))) == [
        "near: head_dim is 128 (asked for 100)",
        "near: head_dim is 64 (asked for 100)",
        "near: head_dim is 256 (asked for 100)",
    ]


def test_fewer_differing_fields_count_more_than_closer_numbers() -> None:
    entries = [
        locked_entry(Scale.CompileKey(head_dim=4096, dtype="float16")),
        locked_entry(Scale.CompileKey(head_dim=97)),
    ]
    asked = fields_json(Scale.CompileKey(head_dim=96, dtype="float16"), where="key")
    lines = near(kernel_missing([("tests.loader.scale:Scale", asked)], entries).problem)
    assert lines[0] == "near: head_dim is 4096 (asked for 96)"
    assert 'dtype is "bfloat16" (asked for "float16"), head_dim is 97 (asked for 96)' in lines[1]


def test_true_and_one_are_shown_as_different() -> None:
    """To Python they are equal, and the message would say that nothing differs."""
    key = Scale.CompileKey(head_dim=64, has_offset=0)  # type: ignore[arg-type]
    assert near(text_for(key))[0] == "near: has_offset is false (asked for 0)"


def test_keys_of_other_kernels_are_never_near() -> None:
    asked = {"head_dim": 96}
    text = str(kernel_missing([("tests.loader.scale:Absent", asked)], ENTRIES))
    assert "near" not in text
    assert "no key of this kernel for this device" in text


def test_at_most_three_are_shown() -> None:
    entries = [locked_entry(Scale.CompileKey(head_dim=head_dim)) for head_dim in range(8, 80, 8)]
    asked = fields_json(Scale.CompileKey(head_dim=1), where="key")
    assert len(near(kernel_missing([("tests.loader.scale:Scale", asked)], entries).problem)) == 3
