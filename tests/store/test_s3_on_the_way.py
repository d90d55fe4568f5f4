"""The S3 store and a real server with faults on the way between them, for reads and for writes."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from kernelforge.errors import ObjectConflict, ObjectCorrupt, ObjectMissing, StoreError, StoreUnavailable
from kernelforge.store import Deadlines, PruneStore, get_blob, open_store, put_blob
from tests import fault_proxy
from tests.fault_proxy import Exchange, Fault, FaultProxy, first
from tests.seaweed import BUCKET, SeaweedServer
from tests.store.conformance import CONTENT, StoreConformance, at_once

IMPATIENT = Deadlines(connect_s=1.0, read_s=1.0, call_s=3.0)
CLIENTS = 32


@pytest.fixture
def proxy(as_writer: SeaweedServer) -> Iterator[FaultProxy]:
    with FaultProxy(as_writer.endpoint_url) as running:
        yield running


def open_behind(proxy: FaultProxy, deadlines: Deadlines | None = None, prefix: str = "") -> PruneStore:
    prefix = prefix or f"test-{secrets.token_hex(6)}"
    return open_store(f"s3://{BUCKET}/{prefix}?endpoint={proxy.url}", deadlines=deadlines or Deadlines())


def now_and_then(exchange: Exchange) -> None:
    """Every tenth request is refused before the server hears of it, beginning with the first."""
    faults = (fault_proxy.reset, fault_proxy.slow_down)
    fault = faults[exchange.number // 10 % 2] if exchange.number % 10 == 0 else fault_proxy.passed_on
    fault(exchange)


@pytest.mark.slow
class TestS3StoreOnAPoorLine(StoreConformance):
    @pytest.fixture
    def store(self, proxy: FaultProxy) -> PruneStore:
        proxy.fault = now_and_then
        return open_behind(proxy)

    def test_traffic(self, store: PruneStore) -> None:
        """Tries that failed are requests too."""
        store.create("a", b"12345")
        assert (store.traffic.puts, store.traffic.bytes_written) == (2, 5)


ALL = {"get", "size", "create", "replace", "delete", "list"}
# What cannot work under a fault that never ends. The others have answers without a body, which is all that is damaged.
FAULTS: dict[str, tuple[Fault, set[str]]] = {
    "reset": (fault_proxy.reset, ALL),
    "black hole": (fault_proxy.black_hole, ALL),
    "503": (fault_proxy.slow_down, ALL),
    "truncated": (fault_proxy.truncated, {"get", "list"}),
    "stalled": (fault_proxy.stalled, {"get", "list"}),
    "dripping": (fault_proxy.dripping, {"get", "list"}),
}


def calls_of(store: PruneStore, version: str) -> dict[str, Callable[[], object]]:
    return {
        "get": lambda: store.get("a", limit_bytes=len(CONTENT)),
        "size": lambda: store.size("a"),
        "create": lambda: store.create("new", CONTENT),
        "replace": lambda: store.replace("moved", CONTENT, version=version),
        "delete": lambda: store.delete("old"),
        "list": lambda: list(store.names()),
    }


def filled(proxy: FaultProxy, deadlines: Deadlines) -> dict[str, Callable[[], object]]:
    """Calls that all work on a good line."""
    store = open_behind(proxy, deadlines)
    for name in ("a", "moved", "old"):
        store.create(name, CONTENT)
    return calls_of(store, store.get_versioned("moved", limit_bytes=len(CONTENT))[1])


def error_of(call: Callable[[], object]) -> type[Exception] | None:
    try:
        call()
    except StoreError as error:
        return type(error)
    return None


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_stays_is_a_typed_error_in_time(proxy: FaultProxy, name: str) -> None:
    fault, hit = FAULTS[name]
    calls = filled(proxy, IMPATIENT)
    proxy.fault = fault

    ended = at_once([partial(error_of, call) for call in calls.values()])
    assert dict(zip(calls, ended, strict=True)) == {kind: StoreUnavailable if kind in hit else None for kind in calls}


@pytest.mark.parametrize("name", ["reset", "503", "truncated"])
def test_a_fault_that_passes_costs_a_try(proxy: FaultProxy, name: str) -> None:
    calls = filled(proxy, Deadlines())
    for kind in FAULTS[name][1]:
        before = proxy.requests
        proxy.fault = _once(FAULTS[name][0])
        calls[kind]()
        assert proxy.requests == before + 2, kind


def _once(fault: Fault) -> Fault:
    faults = [fault]
    return lambda exchange: (faults.pop() if faults else fault_proxy.passed_on)(exchange)


def test_nobody_listens_any_more(proxy: FaultProxy) -> None:
    calls = filled(proxy, IMPATIENT)
    proxy.refuse()
    ended = at_once([partial(error_of, call) for call in calls.values()])
    assert ended == [StoreUnavailable] * len(calls)


class TestBitFlipped:
    def test_once_it_is_read_again(self, proxy: FaultProxy) -> None:
        store = open_behind(proxy)
        blob = put_blob(store, CONTENT)
        proxy.fault = _once(fault_proxy.bit_flipped)
        assert get_blob(store, blob) == CONTENT

    def test_always_it_is_never_taken_for_the_blob(self, proxy: FaultProxy) -> None:
        store = open_behind(proxy)
        blob = put_blob(store, CONTENT)
        proxy.fault = fault_proxy.bit_flipped
        with pytest.raises(ObjectCorrupt):
            get_blob(store, blob)


class TestAnswerLost:
    """The server did what it was asked, and the connection ended before it could say so."""

    def test_create(self, proxy: FaultProxy) -> None:
        store = open_behind(proxy)
        proxy.fault = first(1, fault_proxy.answer_lost)
        assert store.create("a", CONTENT) is False, "an earlier try of ours has brought them"
        assert store.get("a", limit_bytes=len(CONTENT)) == CONTENT

    def test_replace_is_no_conflict_with_itself(self, proxy: FaultProxy) -> None:
        """A promotion would otherwise end with 'somebody else has moved the channel', and it was nobody else."""
        store = open_behind(proxy)
        store.create("a", b"first")
        _, version = store.get_versioned("a", limit_bytes=5)
        proxy.fault = _once(fault_proxy.answer_lost)
        store.replace("a", b"second", version=version)
        assert store.get("a", limit_bytes=6) == b"second"
        with pytest.raises(ObjectConflict):
            store.replace("a", b"second", version=version)

    def test_delete(self, proxy: FaultProxy) -> None:
        store = open_behind(proxy)
        for name in ("a", "b"):
            store.create(name, b"x")
        proxy.fault = _once(fault_proxy.answer_lost)
        store.delete("a")
        _, version = store.get_versioned("b", limit_bytes=1)
        proxy.fault = _once(fault_proxy.answer_lost)
        store.delete("b", version=version)
        with pytest.raises(ObjectMissing):
            store.get("b", limit_bytes=1)


def test_32_clients_all_get_through_a_server_that_is_overloaded_at_first(
    proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """They read and write, and do not come back in step."""
    caplog.set_level(logging.DEBUG, logger="kernelforge.store.retry")
    store = open_behind(proxy)
    store.create("a", b"x")
    refused = CLIENTS * 30 // 100 + 1
    proxy.fault = first(1 + refused, fault_proxy.slow_down)
    reads = [lambda: store.get("a", limit_bytes=1) == b"x"] * (CLIENTS // 2)
    writes = [partial(store.create, f"new/{number}", b"x") for number in range(CLIENTS // 2)]
    assert at_once([*reads, *writes]) == [True] * CLIENTS
    pauses = {record.args[0] for record in caplog.records if record.msg.startswith("trying again")}
    assert len(pauses) > refused // 2
