"""How a bucket is reached: regions, endpoints, credentials, proxies."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelforge.errors import StoreDenied, StoreError, StoreUnavailable
from kernelforge.store import PruneStore, open_store
from tests.store.faults import Answer, FaultyServer, Request, black_hole, error, plain

REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*REGIONS, "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))


@pytest.fixture
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong is said by the last try, so none may be cut off by the deadline."""
    monkeypatch.setattr("kernelforge.store.retry.TRIES", 1)


def open_at(url: str, options: str = "") -> PruneStore:
    return open_store(f"s3://bucket?endpoint={url}{options}")


def asked(server: FaultyServer, options: str = "") -> Request:
    """The one request that reading an object leads to."""
    server.otherwise(plain(200, b"x"))
    assert open_at(server.url, options).get("a", limit_bytes=1) == b"x"
    (request,) = server.requests
    return request


def region_signed_for(request: Request) -> str:
    return request.headers["Authorization"].split("/")[2]


class TestRegion:
    @pytest.mark.parametrize(
        ("options", "variables", "region"),
        [
            ("", {}, "us-east-1"),
            ("&region=eu-central-1", {"AWS_REGION": "eu-west-1"}, "eu-central-1"),
            ("", {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-1"),
            ("", {"AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ],
        ids=["none", "location", "AWS_REGION", "AWS_DEFAULT_REGION"],
    )
    def test_the_location_wins_over_the_environment(
        self,
        faulty_server: FaultyServer,
        monkeypatch: pytest.MonkeyPatch,
        options: str,
        variables: dict[str, str],
        region: str,
    ) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert region_signed_for(asked(faulty_server, options)) == region

    def test_amazons_own_endpoint_is_that_of_the_region(
        self, faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch, one_try: None
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", faulty_server.url)
        faulty_server.otherwise(plain(503))
        with pytest.raises(StoreUnavailable, match="proxy"):
            open_store("s3://bucket?region=eu-central-1").get("a", limit_bytes=1)
        (request,) = faulty_server.requests
        assert (request.method, request.path) == ("CONNECT", "bucket.s3.eu-central-1.amazonaws.com:443")

    @pytest.mark.parametrize(
        "redirect",
        [
            plain(
                301,
                b"<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>",
                headers={"x-amz-bucket-region": "eu-central-1"},
            ),
            plain(
                400,
                b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>expecting 'eu-central-1'</Message>"
                b"<Region>eu-central-1</Region></Error>",
            ),
        ],
        ids=["301", "400"],
    )
    def test_a_bucket_in_another_region(self, faulty_server: FaultyServer, redirect: Answer) -> None:
        """Followed once; a server that insists is answered with an error that says what to write."""
        faulty_server.script += [redirect]
        faulty_server.otherwise(plain(200, b"x"))
        assert open_at(faulty_server.url).get("a", limit_bytes=1) == b"x"
        assert [region_signed_for(request) for request in faulty_server.requests] == ["us-east-1", "eu-central-1"]
        faulty_server.otherwise(redirect)
        with pytest.raises(StoreDenied, match=r"the bucket is in eu-central-1.*region=eu-central-1"):
            open_at(faulty_server.url).get("a", limit_bytes=1)


class TestEndpoint:
    def test_the_environments_endpoint_gets_the_bucket_in_the_path_too(
        self, faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A pod that is told its endpoint by AWS_ENDPOINT_URL must not ask DNS for ``bucket.localhost``."""
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty_server.url.replace("127.0.0.1", "localhost"))
        open_store("s3://bucket").create("a", b"x")
        assert [request.path for request in faulty_server.requests] == ["/bucket/a"]

    @pytest.mark.parametrize(
        ("options", "host", "path"),
        [
            ("", "localhost", "/bucket/a"),
            ("&addressing=path", "localhost", "/bucket/a"),
            ("&addressing=virtual", "bucket.localhost", "/a"),
        ],
    )
    def test_addressing(
        self, faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch, options: str, host: str, path: str
    ) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", _to_loopback(socket.getaddrinfo))
        open_at(faulty_server.url.replace("127.0.0.1", "localhost"), options).create("a", b"x")
        (request,) = faulty_server.requests
        assert (request.headers["Host"].partition(":")[0], request.path) == (host, path)


def _to_loopback(getaddrinfo):
    return lambda host, *others, **named: getaddrinfo("127.0.0.1", *others, **named)


class TestCredentials:
    def test_session_tokens_are_sent(self, faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "of an hour")
        request = asked(faulty_server)
        assert {name.lower(): value for name, value in request.headers.items()}["x-amz-security-token"] == "of an hour"

    def test_expired_ones_are_said_to_be(self, faulty_server: FaultyServer) -> None:
        faulty_server.otherwise(error(400, "ExpiredToken"))
        with pytest.raises(StoreDenied, match=r"ExpiredToken.*get new credentials"):
            open_at(faulty_server.url).get("a", limit_bytes=1)

    def test_a_machine_without_any_decides_soon(self, faulty_server: FaultyServer, metadata: Metadata) -> None:
        """Outside the cloud the address of the metadata service leads nowhere, and clients wait there for minutes."""
        started = time.monotonic()
        with pytest.raises(StoreDenied, match="credentials"):
            open_at(faulty_server.url).get("a", limit_bytes=1)
        assert time.monotonic() - started < 5.0, "the requirement itself: a decision within 5 s"
        assert faulty_server.requests == []

    @pytest.mark.slow
    def test_nor_does_a_role_whose_service_is_silent_take_longer(
        self, faulty_server: FaultyServer, metadata: Metadata, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """botocore asks such a service three times."""
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://{metadata}")
        with pytest.raises(StoreUnavailable, match="no credentials were found within 4 s"):
            open_at(faulty_server.url).get("a", limit_bytes=1)
        assert faulty_server.requests == []

    def test_anonymous_reads_are_unsigned_and_look_for_nothing(
        self, faulty_server: FaultyServer, metadata: Metadata, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connections: list[object] = []
        connect = socket.socket.connect
        monkeypatch.setattr(
            socket.socket, "connect", lambda self, address: (connections.append(address), connect(self, address))[1]
        )
        request = asked(faulty_server, "&anonymous=true")
        assert "Authorization" not in request.headers
        assert connections == [("127.0.0.1", int(faulty_server.url.rpartition(":")[2]))]

    def test_credentials_at_hand_are_not_sent_by_anonymous_readers(self, faulty_server: FaultyServer) -> None:
        assert "anyone" not in str(asked(faulty_server, "&anonymous=true").headers)

    def test_opening_a_store_opens_no_socket(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(socket, "socket", None)
        open_store("s3://bucket")


Metadata = str


@pytest.fixture
def metadata(faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metadata]:
    """No credentials anywhere, and a metadata service that accepts connections and never says a word."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    with black_hole() as address:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{address}")
        yield address


class TestProxies:
    def test_excluded_endpoints_do_not_go_through_the_proxy(
        self, faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with FaultyServer() as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            asked(faulty_server)
            assert proxy.requests == []

    def test_others_do(self, faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTP_PROXY", faulty_server.url)
        faulty_server.otherwise(plain(200, b"x"))
        assert open_at("http://s3.invalid").get("a", limit_bytes=1) == b"x"
        assert [request.path for request in faulty_server.requests] == ["http://s3.invalid/bucket/a"]

    def test_a_proxy_that_is_down_is_an_error_that_names_it(
        self, faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch, one_try: None
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        with pytest.raises(StoreUnavailable, match="proxy"):
            open_at("http://s3.invalid").get("a", limit_bytes=1)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (error(404, "NoSuchBucket"), StoreUnavailable, r"NoSuchBucket \(HTTP 404\)"),
        (error(403, "InvalidAccessKeyId"), StoreDenied, r"InvalidAccessKeyId \(HTTP 403\).*AWS_ACCESS_KEY_ID"),
        (error(403, "SignatureDoesNotMatch"), StoreDenied, r"SignatureDoesNotMatch \(HTTP 403\).*SECRET"),
        (error(403, "RequestTimeTooSkewed"), StoreDenied, r"RequestTimeTooSkewed \(HTTP 403\).*clock"),
        (error(400, "ExpiredToken"), StoreDenied, r"ExpiredToken \(HTTP 400\).*new credentials"),
        (error(503, "SlowDown"), StoreUnavailable, r"SlowDown \(HTTP 503\)"),
    ],
)
def test_errors_say_the_servers_code_and_what_to_do(
    faulty_server: FaultyServer, one_try: None, answer: Answer, kind: type[StoreError], said: str
) -> None:
    faulty_server.otherwise(answer)
    with pytest.raises(kind, match=said):
        open_at(faulty_server.url).get("a", limit_bytes=1)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://no-such-host.invalid", "Failed to resolve 'no-such-host.invalid'"),
        ("http://127.0.0.1:1", "Connection refused"),
    ],
)
def test_unreachable_endpoints_say_whether_it_is_the_name_or_the_port(
    faulty_server: FaultyServer, one_try: None, url: str, said: str
) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        open_at(url).get("a", limit_bytes=1)
    assert said in str(caught.value)
