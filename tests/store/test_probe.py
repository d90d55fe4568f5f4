"""Whether the probe finds out what a store cannot do; each store here is wrong in one way, and right in all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import FormatUnknown, StoreDenied, StoreUnavailable
from kernelforge.store import PruneStore, open_store
from kernelforge.store.interface import StoredObject
from kernelforge.store.layout import MARKER, digest_in
from kernelforge.store.memory import MemoryStore
from kernelforge.store.probe import Ability, Outcome, probe_reading, probe_writing
from kernelforge.store.retry import RetryingStore
from tests.seaweed import SeaweedServer
from tests.store.wrapped import PagedMemory


class Overwrites(MemoryStore):
    def create(self, name: str, data: bytes) -> bool:
        self.delete(name)
        return super().create(name, data)


class ReplacesAnyVersion(MemoryStore):
    def replace(self, name: str, data: bytes, *, version: str) -> None:
        super().replace(name, data, version=self.get_versioned(name, limit_bytes=99)[1])


class DeletesAnyVersion(MemoryStore):
    def delete(self, name: str, *, version: str | None = None) -> None:
        super().delete(name)


class NeverDeletes(MemoryStore):
    def delete(self, name: str, *, version: str | None = None) -> None:
        if version is not None:
            super().delete(name, version=version)


class ReadsStaleBytes(MemoryStore):
    """A cache that nobody knew of."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, bytes] = {}

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        if name not in self._seen:
            self._seen[name] = super().get(name, limit_bytes=limit_bytes)
        return self._seen[name]


class Damages(MemoryStore):
    def get(self, name: str, *, limit_bytes: int) -> bytes:
        data = super().get(name, limit_bytes=limit_bytes)
        return data[:-1] + bytes([data[-1] ^ 1])


class ListsLate(MemoryStore):
    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        return iter(())


class OfAnotherTime(MemoryStore):
    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        return (replace(entry, modified_s=entry.modified_s - 3600) for entry in super().listed(prefix))


class TakesDamage(PagedMemory):
    def refuses_damage(self, name: str) -> bool:
        return False


ALL = set(Ability) - {Ability.READ}


@pytest.mark.parametrize(
    ("store", "ignored"),
    [
        (MemoryStore, set()),
        (lambda: RetryingStore(PagedMemory(), call_s=20), set()),
        (Overwrites, {Ability.CREATE_ONLY}),
        (ReplacesAnyVersion, {Ability.REPLACE}),
        (DeletesAnyVersion, {Ability.DELETE_IF}),
        (NeverDeletes, {Ability.DELETE}),
        (ReadsStaleBytes, {Ability.REPLACE, Ability.DELETE}),
        (Damages, {Ability.READ_BACK, Ability.REPLACE}),
        (ListsLate, {Ability.LIST, Ability.CLOCK}),
        (OfAnotherTime, {Ability.CLOCK}),
        (lambda: RetryingStore(TakesDamage(), call_s=20), {Ability.CHECKSUM}),
    ],
)
def test_what_a_store_ignores_is_found(store: Callable[[], PruneStore], ignored: set[Ability]) -> None:
    findings = {finding.ability: finding for finding in probe_writing(store())}
    assert set(findings) == ALL
    assert {ability for ability, finding in findings.items() if finding.outcome is not Outcome.WORKS} == ignored
    assert all(findings[ability].outcome is Outcome.IGNORED and findings[ability].found for ability in ignored)


def test_nothing_is_left() -> None:
    store = MemoryStore()
    store.create("v1/pins/a.json", b"x")
    list(probe_writing(store))
    assert list(store.names()) == ["v1/pins/a.json"]


def test_every_attempt_is_made_in_the_place_that_was_chosen() -> None:
    class Noting(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.written: set[str] = set()

        def create(self, name: str, data: bytes) -> bool:
            self.written.add(name)
            return super().create(name, data)

    store = Noting()
    list(probe_writing(store, lambda digest: f"v1/quarantine/probe/{digest.hex}"))
    assert {name.rpartition("/")[0] for name in store.written} == {"v1/quarantine/probe"}
    assert list(store.names()) == []


def test_what_cannot_be_deleted_is_an_intact_blob() -> None:
    """Left behind by credentials that may not delete, it must not be found as damage one day."""

    class KeepsAll(MemoryStore):
        def delete(self, name: str, *, version: str | None = None) -> None:
            raise StoreDenied("403", hint="", where=name)

    store = KeepsAll()
    list(probe_writing(store))
    (name,) = store.names()
    assert digest_in(name) == Digest.of(store.get(name, limit_bytes=99))


def test_without_permission_to_create_only_the_listing_is_tried() -> None:
    class ReadOnly(MemoryStore):
        def create(self, name: str, data: bytes) -> bool:
            raise StoreDenied("403", hint="", where=name)

    found = [(finding.ability, finding.outcome) for finding in probe_writing(ReadOnly())]
    assert found == [(Ability.CREATE, Outcome.REFUSED), (Ability.LIST, Outcome.WORKS)]


def test_reading_writes_nothing_and_an_empty_store_can_be_read() -> None:
    store = MemoryStore()
    assert probe_reading(store).outcome is Outcome.WORKS
    assert store.traffic.requests == store.traffic.gets


def test_a_store_that_gives_no_answer_is_told() -> None:
    class Down(MemoryStore):
        def get(self, name: str, *, limit_bytes: int) -> bytes:
            raise StoreUnavailable("down", hint="up", where=name)

    finding = probe_reading(Down())
    assert finding.outcome is Outcome.REFUSED
    assert finding.error is not None


def test_a_store_of_another_layout_is_not_probed() -> None:
    store = MemoryStore()
    store.create(MARKER, b'{"schema":"kernelforge.store/2"}\n')
    with pytest.raises(FormatUnknown):
        probe_reading(store)


def test_a_real_server_can_do_it_all(as_writer: SeaweedServer) -> None:
    """With a wrong sha256 on the wire, which no other test sends."""
    store = open_store(as_writer.location("probe"))
    assert {finding.ability for finding in probe_writing(store) if finding.outcome is Outcome.WORKS} == ALL
    assert list(store.names()) == []
