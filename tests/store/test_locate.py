from __future__ import annotations

from pathlib import Path

import pytest

from kernelforge.errors import UsageError
from kernelforge.store import open_store

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


def test_secrets_in_a_location_are_refused_and_not_repeated() -> None:
    """Locations end up in logs and reports."""
    with pytest.raises(UsageError) as caught:
        open_store("s3://AKIA123:hunter2@bucket/x")
    assert "hunter2" not in str(caught.value)
