"""The S3 store against servers that fail: faults that a healthy one never shows, injected on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import botocore.exceptions
import botocore.session
import pytest

from kernelforge.errors import (
    ObjectConflict,
    ObjectCorrupt,
    ObjectMissing,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from kernelforge.store import Deadlines, PruneStore, get_blob, open_store, put_blob
from kernelforge.store.layout import blob_name
from kernelforge.store.retry import TRIES
from tests.seaweed import write_certificate
from tests.store.conformance import at_once
from tests.store.faults import Answer, FaultyServer, black_hole, chunked, cut_short, dripping, error, hung_up, plain
from tests.store.strict_servers import strict

USUAL = Deadlines()
IMPATIENT = Deadlines(connect_s=0.5, read_s=0.5, call_s=1.5)


def open_at(url: str, deadlines: Deadlines = USUAL) -> PruneStore:
    return open_store(f"s3://bucket?endpoint={url}&region=us-east-1", deadlines=deadlines)


class TestTriedAgain:
    @pytest.mark.parametrize(
        "fault",
        [
            error(503, "SlowDown"),
            error(500, "InternalError"),
            error(429, "TooManyRequests"),
            error(400, "RequestTimeout"),
            cut_short(1000, b"half"),
            hung_up,
        ],
        ids=["SlowDown", "InternalError", "429", "RequestTimeout", "cut short", "hung up"],
    )
    def test_get_survives(self, faulty_server: FaultyServer, fault: Answer) -> None:
        """botocore itself never asks again once the body has begun: a cut body would be an error, or short data."""
        faulty_server.script += [fault, fault]
        faulty_server.otherwise(plain(200, b"x" * 1000))
        store = open_at(faulty_server.url)
        assert store.get("a", limit_bytes=1000) == b"x" * 1000
        assert store.traffic.gets == len(faulty_server.requests) == 3

    def test_create_survives_a_lost_race_that_the_server_wants_tried_again(self, faulty_server: FaultyServer) -> None:
        """AWS answers 409 where two conditional writes meet, which is neither success nor a conflict."""
        faulty_server.script += [error(409, "ConditionalRequestConflict"), plain(200)]
        assert open_at(faulty_server.url).create("a", b"x") is True
        assert [request.method for request in faulty_server.requests] == ["PUT", "PUT"]

    def test_upload_that_arrived_although_its_answer_was_lost(self, faulty_server: FaultyServer) -> None:
        faulty_server.script += [error(500, "InternalError"), error(412, "PreconditionFailed"), plain(200, b"x")]
        assert open_at(faulty_server.url).create("a", b"x") is False
        assert [request.method for request in faulty_server.requests] == ["PUT", "PUT", "GET"]

    def test_tries_end(self, faulty_server: FaultyServer) -> None:
        faulty_server.otherwise(error(503, "SlowDown"))
        with pytest.raises(StoreUnavailable, match=rf"SlowDown.*{TRIES} tries"):
            open_at(faulty_server.url).get("a", limit_bytes=1)
        assert len(faulty_server.requests) == TRIES

    def test_many_pods_that_start_together_all_get_through(self, faulty_server: FaultyServer) -> None:
        faulty_server.script += [error(503, "SlowDown")] * 10
        faulty_server.otherwise(plain(200, b"x"))
        store = open_at(faulty_server.url)
        assert at_once([lambda: store.get("a", limit_bytes=1)] * 32) == [b"x"] * 32


class TestNotTriedAgain:
    @pytest.mark.parametrize(
        ("answer", "kind"),
        [
            (error(404, "NoSuchKey"), ObjectMissing),
            (error(404, "NoSuchBucket"), StoreUnavailable),
            (plain(404), ObjectMissing),
            (error(403, "AccessDenied"), StoreDenied),
            (plain(403), StoreDenied),
            (error(401, "Unauthorized"), StoreDenied),
            (error(400, "ExpiredToken"), StoreDenied),
            (error(400, "AuthorizationHeaderMalformed"), StoreDenied),
            (error(403, "QuotaExceeded"), StoreFull),
            (error(507, "InsufficientStorage"), StoreFull),
            (error(501, "NotImplemented"), StoreUnavailable),
            (error(405, "MethodNotAllowed"), StoreUnavailable),
            (plain(200, b"x" * 10), ObjectCorrupt),
            (cut_short(10 << 30, b""), ObjectCorrupt),
        ],
    )
    def test_get(self, faulty_server: FaultyServer, answer: Answer, kind: type[StoreError]) -> None:
        faulty_server.otherwise(answer)
        with pytest.raises(kind) as caught:
            open_at(faulty_server.url).get("v1/a", limit_bytes=9)
        assert type(caught.value) is kind
        assert "v1/a" in str(caught.value)
        assert len(faulty_server.requests) == 1

    @pytest.mark.parametrize(
        ("answer", "kind"),
        [
            (plain(403), StoreDenied),
            (plain(400), StoreUnavailable),
            (plain(301, headers={"Location": "https://elsewhere.invalid/"}), StoreUnavailable),
        ],
    )
    def test_size(self, faulty_server: FaultyServer, answer: Answer, kind: type[StoreError]) -> None:
        """The answer to a HEAD has no body: its status alone must not be read as 'not there'."""
        faulty_server.otherwise(answer)
        with pytest.raises(kind):
            open_at(faulty_server.url).size("a")

    def test_size_of_a_missing_object_in_an_existing_bucket(self, faulty_server: FaultyServer) -> None:
        faulty_server.script += [plain(404), plain(200)]
        with pytest.raises(ObjectMissing):
            open_at(faulty_server.url).size("a")

    def test_other_bytes_are_a_conflict(self, faulty_server: FaultyServer) -> None:
        faulty_server.script += [error(412, "PreconditionFailed"), plain(200, b"y")]
        with pytest.raises(ObjectConflict):
            open_at(faulty_server.url).create("a", b"x")

    @pytest.mark.parametrize("page", [b"<html>Welcome! <br> Please log in.</html>", b"<html>Please log in.</html>"])
    def test_page_of_a_hotel_is_no_empty_store(self, faulty_server: FaultyServer, page: bytes) -> None:
        """botocore reads well-formed XML of any kind as a listing without entries."""
        faulty_server.otherwise(plain(200, page))
        with pytest.raises(StoreUnavailable):
            list(open_at(faulty_server.url).names())


def test_answer_without_a_size_is_bounded_too(faulty_server: FaultyServer) -> None:
    """Proxies send on in chunks; then no header says how much is coming."""
    faulty_server.otherwise(chunked(b"x" * 1000))
    store = open_at(faulty_server.url)
    assert store.get("a", limit_bytes=1000) == b"x" * 1000
    with pytest.raises(ObjectCorrupt):
        store.get("a", limit_bytes=999)


class TestDeadline:
    """Every one of these would wait for ever, or for minutes, on the time-outs of sockets alone."""

    def test_server_that_sends_a_byte_now_and_then(self, faulty_server: FaultyServer) -> None:
        faulty_server.otherwise(dripping(1_000_000))
        with pytest.raises(StoreUnavailable, match=r"1\.5 s"):
            open_at(faulty_server.url, IMPATIENT).get("a", limit_bytes=1_000_000)

    def test_server_that_accepts_and_never_answers(self, faulty_server: FaultyServer) -> None:
        with black_hole() as address:
            store = open_at(f"http://{address}", Deadlines(connect_s=0.5, read_s=0.2, call_s=0.5))
            for call in (
                lambda: store.get("a", limit_bytes=1),
                lambda: store.size("a"),
                lambda: store.create("a", b"x"),
                lambda: list(store.names()),
                lambda: store.delete("a"),
            ):
                with pytest.raises(StoreUnavailable):
                    call()

    def test_nobody_listens(self, faulty_server: FaultyServer) -> None:
        with pytest.raises(StoreUnavailable):
            open_at("http://127.0.0.1:1", IMPATIENT).get("a", limit_bytes=1)

    def test_no_such_host(self, faulty_server: FaultyServer) -> None:
        with pytest.raises(StoreUnavailable):
            open_at("http://no-such-host.invalid", IMPATIENT).get("a", limit_bytes=1)


@pytest.fixture(params=["http", "https"])
def server(
    request: pytest.FixtureRequest, faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[FaultyServer]:
    """Clients send other headers over HTTPS, and a test over HTTP alone never sees them."""
    if request.param == "http":
        yield faulty_server
        return
    write_certificate(tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "certificate.pem"))
    with FaultyServer(tmp_path) as server:
        yield server


def test_uploads_carry_a_sha256_a_condition_and_no_trailer(server: FaultyServer) -> None:
    """A checksum trailer (``aws-chunked``), which botocore adds over HTTPS, is refused by R2, older MinIO and Ceph."""
    open_at(server.url).create("a", b"x")
    (request,) = server.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert (request.method, request.path) == ("PUT", "/bucket/a")
    assert headers["if-none-match"] == "*"
    assert headers["x-amz-checksum-sha256"] == "LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE="
    assert headers["content-length"] == "1"
    assert "x-amz-trailer" not in headers
    assert "content-encoding" not in headers


def test_a_server_that_refuses_what_is_new_serves_all_the_same(server: FaultyServer) -> None:
    """Upload, replacement, download, removal: none of them needs a trailer, a checksum of theirs or a Content-MD5."""
    old = strict(server)
    store = open_at(server.url)
    blob = put_blob(store, b"content " * 1000)
    assert get_blob(store, blob) == b"content " * 1000
    store.create("a", b"first")
    store.replace("a", b"second", version=store.get_versioned("a", limit_bytes=5)[1])
    assert store.get("a", limit_bytes=6) == b"second"
    store.delete("a")
    with pytest.raises(ObjectConflict):
        store.create(blob_name(blob.stored_digest), b"other")
    assert list(old.objects) == [f"/bucket/{blob_name(blob.stored_digest)}"]
    assert old.refused == []


def test_that_server_does_refuse_what_a_plain_client_sends(server: FaultyServer) -> None:
    """Keeps the test above honest."""
    old = strict(server)
    plain_client = botocore.session.Session().create_client("s3", endpoint_url=server.url, region_name="us-east-1")
    with pytest.raises(botocore.exceptions.ClientError):
        plain_client.put_object(Bucket="bucket", Key="a", Body=b"x")
    assert old.refused


@pytest.mark.parametrize(("size_bytes", "is_asked"), [(40_000, False), (1 << 20, True)])
def test_only_large_bodies_wait_to_be_wanted(faulty_server: FaultyServer, size_bytes: int, is_asked: bool) -> None:
    """The question costs a round trip; unasked, a large body would be sent in vain to a server that refuses it."""
    open_at(faulty_server.url).create("a", bytes(size_bytes))
    (request,) = faulty_server.requests
    assert ("Expect" in request.headers) is is_asked
