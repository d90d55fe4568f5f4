from __future__ import annotations

from pathlib import Path

import pytest

from kernelforge.errors import StoreError, UsageError
from kernelforge.store import Deadlines, get_blob, open_reader, open_store, put_blob
from kernelforge.store.file import FileStore

HOST = "http://127.0.0.1:8333"


@pytest.mark.parametrize(
    ("location", "opened"),
    [
        ("/var/lib/kf", "file:///var/lib/kf"),
        ("file:/var/lib/kf", "file:///var/lib/kf"),
        ("file:///var/lib/kf", "file:///var/lib/kf"),
        ("file://localhost/var/lib/kf", "file:///var/lib/kf"),
        ("file:///with%20space", "file:///with%20space"),
        ("/with space", "file:///with%20space"),
        ("/50%25", "file:///50%2525"),
        ("memory:", "memory:"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/team/kernels/", "s3://bucket/team/kernels"),
        ("s3://bucket?region=eu-central-1", "s3://bucket?region=eu-central-1"),
        (f"s3://bucket/p?endpoint={HOST}&region=r", f"s3://bucket/p?endpoint={HOST}&region=r"),
        ("s3://bucket?endpoint=http%3A%2F%2F127.0.0.1%3A8333", f"s3://bucket?endpoint={HOST}"),
        ("s3://bucket?endpoint=https://host/storage/s3", "s3://bucket?endpoint=https://host/storage/s3"),
        ("s3://bucket?addressing=virtual", "s3://bucket?addressing=virtual"),
        ("s3://bucket?anonymous=true&addressing=path", "s3://bucket?addressing=path&anonymous=true"),
        ("s3://bucket?mirror=/mnt/near&region=r", "s3://bucket?region=r"),
    ],
)
def test_accepted(location: str, opened: str) -> None:
    assert open_store(location).location == opened
    assert open_store(opened).location == opened


def test_relative_folders_are_those_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("some/store")
    monkeypatch.chdir("/")
    assert store.location == (tmp_path / "some/store").as_uri()


def test_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shells leave the tilde of ``--store=~/x`` as it is; a folder named ``~`` is nobody's wish."""
    monkeypatch.setenv("HOME", "/home/kf")
    assert open_store("~/store").location == "file:///home/kf/store"


def test_endpoint_given_beside_the_location() -> None:
    assert open_store("s3://bucket", endpoint_url=HOST).location == f"s3://bucket?endpoint={HOST}"
    other = "s3://bucket?endpoint=http://other:1"
    assert open_store(other, endpoint_url=HOST).location == other


@pytest.mark.parametrize(
    "location",
    [
        "",
        "gs://bucket/x",
        "http://host/x",
        "s3:bucket",
        "s3://",
        "s3:///prefix",
        "s3://Bucket",
        "s3://a",
        "s3://bucket:9000/x",
        "s3://bucket/../x",
        "s3://bucket/a//b",
        "s3://bucket#x",
        "s3://bucket?endpoint=",
        "s3://bucket?endpoint=ftp://host",
        "s3://bucket?endpoint=http://user:pw@host",
        "s3://bucket?anonymous=1",
        "s3://bucket?region",
        "s3://bucket?addressing=host",
        "s3://bucket?mirror=",
        "s3://bucket?mirror=gs://near",
        "s3://bucket?mirror=s3://near?mirror=/mnt/near",
        "file:///x?mirror=/mnt/near",
        "s3://[bad",
        "file:",
        "file://server/share",
        "file:///x?y",
        "memory:x",
        "~no-such-user-here/x",
    ],
)
def test_refused_with_what_is_accepted(location: str) -> None:
    with pytest.raises(UsageError, match="s3://bucket/prefix"):
        open_store(location)


@pytest.mark.parametrize(
    "location",
    [
        "s3://AKIA123:hunter2@bucket/x",
        "s3://bucket?endpoint=http://me:hunter2@host",
        "s3://bucket?mirror=s3://AKIA123:hunter2@near",
        "s3://bucket?mirror=s3://near?endpoint=http://me:hunter2@host",
    ],
)
def test_secrets_in_a_location_are_refused_and_not_repeated(location: str) -> None:
    """Locations end up in logs and reports."""
    with pytest.raises(UsageError) as caught:
        open_store(location)
    assert "hunter2" not in str(caught.value)


class TestMirrors:
    def test_readers_ask_the_mirror_and_writers_the_store(self, tmp_path: Path) -> None:
        """A build that found its blobs in a mirror would publish a lockfile for a store that lacks them."""
        near = FileStore(tmp_path)
        blob = put_blob(near, b"content", compress=False)
        location = f"s3://bucket?endpoint=http://127.0.0.1:1&mirror={tmp_path}"
        assert get_blob(open_reader(location), blob) == b"content"
        with pytest.raises(StoreError):
            get_blob(open_store(location, deadlines=Deadlines(call_s=0.1)), blob)

    def test_a_mirror_may_be_a_bucket_with_options_of_its_own(self) -> None:
        reader = open_reader(f"s3://far/p?region=eu-west-1&mirror=s3://near/p?endpoint={HOST}%26anonymous=true")
        assert reader.location == "s3://far/p?region=eu-west-1"
