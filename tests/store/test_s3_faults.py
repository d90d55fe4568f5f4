"""The S3 store against servers that fail: faults that a healthy one never shows, injected on the wire."""

from __future__ import annotations

from pathlib import Path

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
from kernelforge.store import Deadlines, PruneStore, open_store
from kernelforge.store.deadline import TRIES
from tests.seaweed import write_certificate
from tests.store.conformance import at_once
from tests.store.faults import Answer, FaultyServer, black_hole, chunked, cut_short, dripping, error, hung_up, plain

IMPATIENT = Deadlines(connect_s=0.5, read_s=0.5, call_s=1.5)


def open_at(url: str, deadlines: Deadlines = IMPATIENT) -> PruneStore:
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
        store = open_at(faulty_server.url, Deadlines())
        assert store.get("a", limit_bytes=1000) == b"x" * 1000
        assert store.traffic.gets == len(faulty_server.requests) == 3

    def test_create_survives_a_lost_race_that_the_server_wants_tried_again(self, faulty_server: FaultyServer) -> None:
        """AWS answers 409 where two conditional writes meet, which is neither success nor a conflict."""
        faulty_server.script += [error(409, "ConditionalRequestConflict"), plain(200)]
        assert open_at(faulty_server.url, Deadlines()).create("a", b"x") is True
        assert [request.method for request in faulty_server.requests] == ["PUT", "PUT"]

    def test_upload_that_arrived_although_its_answer_was_lost(self, faulty_server: FaultyServer) -> None:
        faulty_server.script += [error(500, "InternalError"), error(412, "PreconditionFailed"), plain(200, b"x")]
        assert open_at(faulty_server.url, Deadlines()).create("a", b"x") is False
        assert [request.method for request in faulty_server.requests] == ["PUT", "PUT", "GET"]

    def test_tries_end(self, faulty_server: FaultyServer) -> None:
        faulty_server.otherwise(error(503, "SlowDown"))
        with pytest.raises(StoreUnavailable, match=rf"SlowDown.*{TRIES} tries"):
            open_at(faulty_server.url, Deadlines()).get("a", limit_bytes=1)
        assert len(faulty_server.requests) == TRIES

    def test_many_pods_that_start_together_all_get_through(self, faulty_server: FaultyServer) -> None:
        faulty_server.script += [error(503, "SlowDown")] * 10
        faulty_server.otherwise(plain(200, b"x"))
        store = open_at(faulty_server.url, Deadlines())
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
            open_at(faulty_server.url).get("a", limit_bytes=1_000_000)

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
            open_at("http://127.0.0.1:1").get("a", limit_bytes=1)

    def test_no_such_host(self, faulty_server: FaultyServer) -> None:
        with pytest.raises(StoreUnavailable):
            open_at("http://no-such-host.invalid").get("a", limit_bytes=1)


def test_no_credentials_and_a_silent_metadata_service(
    faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Outside the cloud the address of the metadata service leads nowhere, and clients wait there for minutes."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
    with black_hole() as address:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{address}")
        with pytest.raises(StoreDenied, match="credentials"):
            open_at(faulty_server.url, Deadlines(call_s=5)).get("a", limit_bytes=1)
    assert faulty_server.requests == []


def test_excluded_endpoints_do_not_go_through_the_proxy(
    faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyServer() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        open_at(faulty_server.url).create("a", b"x")
        assert proxy.requests == []


def test_named_endpoints_get_the_bucket_in_the_path(faulty_server: FaultyServer) -> None:
    """Nobody's DNS knows ``bucket.minio.internal``."""
    open_at(faulty_server.url.replace("127.0.0.1", "localhost")).create("a", b"x")
    assert [request.path for request in faulty_server.requests] == ["/bucket/a"]


@pytest.mark.parametrize("https", [False, True])
def test_uploads_carry_a_sha256_a_condition_and_no_trailer(
    faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, https: bool
) -> None:
    """A checksum trailer (``aws-chunked``), which botocore adds over HTTPS, is refused by R2, older MinIO and Ceph."""
    write_certificate(tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "certificate.pem"))
    with FaultyServer(tmp_path if https else None) as server:
        open_at(server.url).create("a", b"x")
        (request,) = server.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert (request.method, request.path) == ("PUT", "/bucket/a")
    assert headers["if-none-match"] == "*"
    assert headers["x-amz-checksum-sha256"] == "LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE="
    assert headers["content-length"] == "1"
    assert "x-amz-trailer" not in headers
    assert "content-encoding" not in headers
