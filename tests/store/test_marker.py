from __future__ import annotations

import json

import pytest

from kernelforge.errors import FormatUnknown, ObjectCorrupt
from kernelforge.store import marker
from kernelforge.store.memory import MemoryStore


def test_new_store_is_readable_and_reading_does_not_claim_it() -> None:
    store = MemoryStore()
    marker.check(store)
    assert list(store.names()) == []


def test_first_writer_leaves_it_and_later_ones_accept_it() -> None:
    store = MemoryStore()
    marker.claim(store)
    marker.claim(store)
    marker.check(store)
    assert json.loads(store.get("kf.json", limit_bytes=100)) == {"schema": "kernelforge.store/1"}


def test_additions_within_a_major_version_are_accepted() -> None:
    store = MemoryStore()
    store.create("kf.json", b'{"schema": "kernelforge.store/1", "made_by": "a later 1.x"}')
    marker.claim(store)
    marker.check(store)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"schema": "kernelforge.store/2"}', FormatUnknown),
        (b'{"schema": "kernelforge.store/10"}', FormatUnknown),
        (b'{"schema": "something.else/1"}', ObjectCorrupt),
        (b"", ObjectCorrupt),
    ],
)
def test_other_major_versions_are_refused(data: bytes, kind: type[Exception]) -> None:
    """A layout that changed its meaning must stop old readers and writers, not confuse them."""
    store = MemoryStore()
    store.create("kf.json", data)
    for call in (marker.check, marker.claim):
        with pytest.raises(kind):
            call(store)
    assert store.get("kf.json", limit_bytes=100) == data
