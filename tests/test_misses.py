"""The document in which pods report what they had to compile."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import InputError
from kernelforge.misses import MissedKey, Misses, merged
from kernelforge.target import Target

KEY = MissedKey("m:K", {"width": 96, "eps": 1e-06, "tiles": {"tuple": [1, 2]}}, Target("sm_90a"), "h200-sxm", 2, 1.25)
DOCUMENT = Misses(Digest.of(b"lock"), (KEY,))


def changed(**changes: Any) -> bytes:
    document = json.loads(DOCUMENT.to_bytes())
    document["misses"][0].update(changes)
    return json.dumps(document).encode()


def test_what_is_written_is_read_back() -> None:
    assert Misses.parse(DOCUMENT.to_bytes(), where="x") == DOCUMENT


def test_the_order_in_which_keys_were_missed_does_not_show() -> None:
    other = replace(KEY, compile_key={"width": 32})
    first, second = (Misses(DOCUMENT.lockfile, keys) for keys in ((KEY, other), (other, KEY)))
    assert first.to_bytes() == second.to_bytes()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "Expecting value"),
        (b"[]", "not an object"),
        (changed(extra=1), "no member extra"),
        (changed(count=True), "count: True is not an integer"),
        (changed(count=0), "count: 0 times is no miss"),
        (changed(seconds=-1), "seconds: -1 is no number of seconds"),
        (changed(seconds="1"), "seconds"),
        (changed(target="sm_90a"), "target"),
        (changed(compile_key=[]), r"compile_key: \[\] is not an object"),
        (DOCUMENT.to_bytes().replace(b"misses/1", b"misses/2"), "kernelforge.misses/2"),
        (DOCUMENT.to_bytes().replace(b"sha256:", b"sha1:"), "lockfile"),
    ],
)
def test_anything_else_is_refused_with_its_place(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words) as refusal:
        Misses.parse(data, where="a.misses.json")
    assert refusal.value.where == "a.misses.json"


def test_reports_of_several_pods_add_up() -> None:
    (found,) = merged([DOCUMENT, Misses(Digest.of(b"another lock"), (replace(KEY, count=3, seconds=0.75),))])
    assert (found.count, found.seconds) == (5, 2.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": "m:L"},
        {"device": "h100-sxm"},
        {"target": Target("sm_100a")},
        {"compile_key": {**KEY.compile_key, "width": 96.0}},
    ],
)
def test_keys_that_only_look_alike_do_not(changes: dict[str, Any]) -> None:
    assert len(merged([DOCUMENT, Misses(DOCUMENT.lockfile, (replace(KEY, **changes),))])) == 2
