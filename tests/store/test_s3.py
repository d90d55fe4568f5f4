"""The S3 store against a real server, over HTTP and HTTPS."""

from __future__ import annotations

import concurrent.futures
import secrets
import socket
from urllib.parse import urlsplit

import pytest

from kernelforge.errors import ObjectCorrupt, ObjectMissing, StoreDenied, StoreUnavailable
from kernelforge.store import PruneStore, get_blob, open_store, put_blob
from kernelforge.store.layout import blob_name
from tests.seaweed import BUCKET, SeaweedServer, client, run_seaweed
from tests.store.conformance import CONTENT, StoreConformance


def fresh_prefix() -> str:
    return f"test-{secrets.token_hex(6)}"


class TestS3Store(StoreConformance):
    @pytest.fixture
    def store(self, as_writer: SeaweedServer) -> PruneStore:
        return open_store(as_writer.location(fresh_prefix()))


class TestS3StoreOverHttps(StoreConformance):
    """Clients send other headers over HTTPS (checksum trailers), and some servers refuse them only there."""

    @pytest.fixture
    def store(self, as_writer: SeaweedServer) -> PruneStore:
        return open_store(as_writer.location(fresh_prefix(), https=True))


def test_location_opens_the_same_store(as_writer: SeaweedServer) -> None:
    store = open_store(f"s3://{BUCKET}/{fresh_prefix()}?region=eu-central-1", endpoint_url=as_writer.endpoint_url)
    store.create("a", b"x")
    assert open_store(store.location).get("a", limit_bytes=1) == b"x"


def test_prefixes_are_separate(as_writer: SeaweedServer) -> None:
    """``team`` must not see, or list, what ``team-b`` and the bucket's top hold."""
    prefix = fresh_prefix()
    open_store(as_writer.location(f"{prefix}-b")).create("a", b"other")
    store = open_store(as_writer.location(prefix))
    store.create("a", b"x")
    assert list(store.names()) == ["a"]
    assert client(as_writer).get_object(Bucket=BUCKET, Key=f"{prefix}/a")["Body"].read() == b"x"


def test_more_names_than_one_answer_lists(as_writer: SeaweedServer) -> None:
    """S3 lists at most 1000 names at a time; collecting garbage by the first page would delete the rest's blobs."""
    store = open_store(as_writer.location(fresh_prefix()))
    expected = {f"v1/{number}" for number in range(1003)}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lambda name: store.create(name, b"x"), expected))
    assert set(store.names("v1/")) == expected


def test_large_object_goes_up_in_one_request(as_writer: SeaweedServer) -> None:
    """A multipart upload cannot be conditional on every server, and leaves parts behind when it is killed."""
    store = open_store(as_writer.location(fresh_prefix()))
    large = secrets.token_bytes(20 << 20)
    blob = put_blob(store, large, compress=False)
    assert store.traffic.puts == 1
    assert get_blob(store, blob) == large


def test_bytes_changed_behind_our_back_are_corrupt(as_writer: SeaweedServer) -> None:
    prefix = fresh_prefix()
    store = open_store(as_writer.location(prefix))
    blob = put_blob(store, CONTENT)
    key = f"{prefix}/{blob_name(blob.stored_digest)}"
    client(as_writer).put_object(Bucket=BUCKET, Key=key, Body=b"\x00" * blob.stored_size_bytes)
    with pytest.raises(ObjectCorrupt):
        get_blob(store, blob)


def test_upload_cut_off_in_the_middle_leaves_no_object(as_writer: SeaweedServer) -> None:
    """A publisher killed with -9 while it sends must not leave half an object under the right name."""
    prefix = fresh_prefix()
    target = {"Bucket": BUCKET, "Key": f"{prefix}/a"}
    url = urlsplit(client(as_writer).generate_presigned_url("put_object", Params=target))
    with socket.create_connection((url.hostname, url.port)) as connection:
        head = f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: 100000\r\n\r\n"
        connection.sendall(head.encode() + b"x" * 50_000)
    store = open_store(as_writer.location(prefix))
    with pytest.raises(ObjectMissing):
        store.get("a", limit_bytes=100_000)
    assert store.create("a", b"whole") is True


class TestWhoMayDoWhat:
    """Denied must never read as missing: every build would be cold for weeks and nobody would know."""

    def test_reader_may_read_and_not_write(self, as_writer: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        location = as_writer.location(fresh_prefix())
        open_store(location).create("a", b"x")
        for name, value in as_writer.environment("reader").items():
            monkeypatch.setenv(name, value)
        store = open_store(location)
        assert store.get("a", limit_bytes=1) == b"x"
        with pytest.raises(ObjectMissing):
            store.get("b", limit_bytes=1)
        with pytest.raises(StoreDenied):
            store.create("b", b"x")
        with pytest.raises(StoreDenied):
            store.delete("a")

    @pytest.mark.parametrize(
        ("variable", "code"),
        [("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"), ("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId")],
    )
    def test_wrong_credentials(
        self, as_writer: SeaweedServer, monkeypatch: pytest.MonkeyPatch, variable: str, code: str
    ) -> None:
        monkeypatch.setenv(variable, "wrong")
        store = open_store(as_writer.location(fresh_prefix()))
        with pytest.raises(StoreDenied, match=code):
            store.get("a", limit_bytes=1)
        with pytest.raises(StoreDenied, match="403"):
            store.size("a")
        with pytest.raises(StoreDenied, match=code):
            store.create("a", b"x")
        with pytest.raises(StoreDenied, match=code):
            list(store.names())
        assert store.traffic.requests == 4, "a refusal is final; asking again helps nobody"


def test_missing_bucket_is_no_miss(as_writer: SeaweedServer) -> None:
    """A typo in the bucket's name must not read as a store in which nothing was built yet."""
    store = open_store(f"s3://no-such-bucket?endpoint={as_writer.endpoint_url}")
    with pytest.raises(StoreUnavailable, match="bucket"):
        store.get("a", limit_bytes=1)
    with pytest.raises(StoreUnavailable, match="bucket"):
        store.size("a")
    with pytest.raises(StoreUnavailable, match="bucket"):
        store.create("a", b"x")
    with pytest.raises(StoreUnavailable, match="bucket"):
        list(store.names())


def test_unknown_certificate_is_unavailable(as_writer: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE")
    with pytest.raises(StoreUnavailable, match="certificate verify failed"):
        open_store(as_writer.location(fresh_prefix(), https=True)).get("a", limit_bytes=1)


def test_server_that_went_down_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_seaweed() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        store = open_store(server.location("p"))
        store.create("a", b"x")
    with pytest.raises(StoreUnavailable):
        store.get("a", limit_bytes=1)
