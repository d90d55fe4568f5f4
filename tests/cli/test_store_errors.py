"""A store that cannot answer: never a miss, always counted, exit code 3, and the server's own words in the report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kernelforge.store import Deadlines, open_store
from tests.cli.command import Ran, write_manifest
from tests.cli.in_process import Kernelforge
from tests.seaweed import SeaweedServer
from tests.store.faults import FaultyServer, black_hole, error


@pytest.fixture
def kernelforge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kernelforge:
    """The command line beside a manifest of two keys."""
    monkeypatch.delenv("KERNELFORGE_STORE", raising=False)
    write_manifest(tmp_path, ("Copy", "{width: {choices: [32, 64]}}"))
    return Kernelforge(tmp_path, monkeypatch, capsys)


@pytest.fixture
def real(seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> SeaweedServer:
    for name, value in seaweed_server.environment().items():
        monkeypatch.setenv(name, value)
    return seaweed_server


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that says nothing, and less patience than usual."""
    impatient = partial(open_store, deadlines=Deadlines(connect_s=0.3, read_s=0.3, call_s=1.0))
    monkeypatch.setattr("kernelforge.cli.options.open_store", impatient)
    with black_hole() as address:
        yield address


def all_keys_are_store_errors(ran: Ran, said: str) -> None:
    assert ran.code == 3, ran.err
    totals = json.loads(ran.out)["totals"]
    assert (totals["hits"], totals["misses"], totals["store_errors"]) == (0, 0, totals["keys"])
    assert all(said in entry["reason"] for entry in json.loads(ran.out)["entries"]), ran.out
    assert ran.err.count("error:") == 1, "once, not once for each key"


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch (HTTP 403)"),
        ("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId (HTTP 403)"),
    ],
)
def test_wrong_credentials(kernelforge: Kernelforge, real: SeaweedServer, variable: str, said: str) -> None:
    ran = kernelforge("plan", "small.yaml", "--store", real.location("p"), "--json", **{variable: "wrong"})
    all_keys_are_store_errors(ran, said)


def test_wrong_bucket(kernelforge: Kernelforge, real: SeaweedServer) -> None:
    location = f"s3://no-such-bucket/p?endpoint={real.endpoint_url}"
    ran = kernelforge("plan", "small.yaml", "--store", location, "--json")
    all_keys_are_store_errors(ran, "NoSuchBucket (HTTP 404)")


def test_expired_token(kernelforge: Kernelforge, real: SeaweedServer) -> None:
    with FaultyServer() as server:
        server.otherwise(error(400, "ExpiredToken"))
        ran = kernelforge("plan", "small.yaml", "--store", f"s3://bucket?endpoint={server.url}", "--json")
        assert len(server.requests) == 1
    all_keys_are_store_errors(ran, "ExpiredToken (HTTP 400)")


def test_no_such_host(kernelforge: Kernelforge, real: SeaweedServer) -> None:
    location = "s3://bucket?endpoint=http://no-such-host.invalid"
    all_keys_are_store_errors(kernelforge("plan", "small.yaml", "--store", location, "--json"), "Failed to resolve")


def test_silence(kernelforge: Kernelforge, real: SeaweedServer, silent: str) -> None:
    location = f"s3://bucket?endpoint=http://{silent}"
    all_keys_are_store_errors(kernelforge("plan", "small.yaml", "--store", location, "--json"), "StoreUnavailable: ")
