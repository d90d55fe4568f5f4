"""A pinned lockfile is read without its entries: what a pod learns of them must be what a parser would have told it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kernelforge import lockfile as lockfile_module
from kernelforge.errors import LockfileError
from kernelforge.lockfile import LockedEntry, Lockfile
from kernelforge.lockfile_text import DeferredEntries
from tests.small_release import BLACKWELL, HOPPER, LOCK, entry


def with_entries(*entries: LockedEntry) -> Lockfile:
    return replace(LOCK, entries=entries)


def keyed(**compile_key: Any) -> LockedEntry:
    return replace(entry("kf_K_1", HOPPER, ("h100",)), compile_key=compile_key)


def parsed_whole(data: bytes, device: str) -> dict[str, str]:
    return {found.symbol: found.kernel for found in Lockfile.parse(data).entries_for(device)}


# Members of a compile key that are called like an entry's own members, or like a device: only their depth differs.
LOOK_ALIKES: dict[str, Any] = {
    "symbol": "kf_other",
    "kernel": "m:Other",
    "devices": ["h200"],
    "entries": [{"symbol": "kf_other"}],
    "h200": 1,
    "list": ["h200", {"devices": ["h200"], "kernel": "m:Other"}],
    "brackets": '], "kernel": "m:Other"',
}


@pytest.mark.parametrize("device", ["b200", "h100", "h200", "l40s"])
@pytest.mark.parametrize(
    "lock",
    [
        LOCK,
        with_entries(),
        with_entries(LOCK.entries[2]),
        with_entries(keyed(**LOOK_ALIKES), entry("kf_K_1", BLACKWELL, ("b200",))),
        *(with_entries(keyed(**{name: value})) for name, value in LOOK_ALIKES.items()),
        with_entries(keyed(text="a\nb\\", name="Größe")),
    ],
    ids=lambda value: None,
)
def test_names_found_in_the_text_are_those_of_the_entries(lock: Lockfile, device: str) -> None:
    """The pod would look up other symbols than the release has, or miss some, if the text were misread."""
    data = lock.to_bytes()
    assert Lockfile.parse_pinned(data).kernels_by_symbol(device) == parsed_whole(data, device)
    assert Lockfile.parse(data).kernels_by_symbol(device) == parsed_whole(data, device)


def test_all_but_the_entries_is_read_at_once_and_these_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = Lockfile.parse_pinned(LOCK.to_bytes())
    assert replace(lock, entries=LOCK.entries) == LOCK
    assert isinstance(lock.entries, DeferredEntries)
    assert len(lock.entries) == 3
    assert tuple(lock.entries) == Lockfile.parse(LOCK.to_bytes()).entries
    assert lock.entries[1:] == tuple(lock.entries)[1:]
    assert lock.to_bytes() == LOCK.to_bytes()
    # Once is enough: an error message must not read them for every key that it names.
    monkeypatch.setattr(lockfile_module, "_parse", None)
    assert lock.entries_for("h200") == LOCK.entries_for("h200")


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(json.loads(LOCK.to_bytes())).encode(),
        json.dumps(json.loads(LOCK.to_bytes()), indent=1).encode(),
        json.dumps(json.loads(LOCK.to_bytes()), indent=2, sort_keys=True).encode(),
        LOCK.to_bytes().replace(b"\n", b"\r\n"),
        LOCK.to_bytes().replace(b'"kernel": "m:K"', b'"kernel": "m:\\u004b"'),
        LOCK.to_bytes().replace(b'\n   "symbol"', b'\n  "symbol"'),
        LOCK.to_bytes().replace(b'   "kernel"', b'\n   "kernel"'),
    ],
    ids=["compact", "other order", "other indent", "line ends", "escapes", "one depth off", "an empty line"],
)
def test_another_layout_is_read_all_the_same(data: bytes) -> None:
    """Who pins what a formatter made of a lockfile gets what it says, only slower."""
    for device in ("b200", "h100", "h200"):
        assert Lockfile.parse_pinned(data).kernels_by_symbol(device) == parsed_whole(data, device)


def test_entries_that_contradict_each_other_are_refused_when_they_are_read() -> None:
    data = with_entries(LOCK.entries[2], LOCK.entries[2]).to_bytes()
    lock = Lockfile.parse_pinned(data, where="x.lock.json")
    with pytest.raises(LockfileError, match="kf_K_2 appears twice") as caught:
        tuple(lock.entries)
    assert caught.value.where == "x.lock.json"


@pytest.mark.parametrize("end", [10, 200, -200, -2])
def test_what_is_no_lockfile_is_refused_at_once(end: int) -> None:
    with pytest.raises(LockfileError):
        Lockfile.parse_pinned(LOCK.to_bytes()[:end])


def test_entries_twice_are_refused() -> None:
    """The text before the second list would be taken for the entries, and the pod would see half of them."""
    data = LOCK.to_bytes()
    start, end = data.index(b' "entries": ['), data.index(b' "kernels": {')
    with pytest.raises(LockfileError, match="a member appears twice"):
        Lockfile.parse_pinned(data[:start] + b' "entries": [],\n' + data[start:end] + data[end:])
