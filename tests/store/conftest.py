"""Fixtures of the store's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.seaweed import SeaweedServer
from tests.store.faults import FaultyServer


@pytest.fixture
def as_writer(seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> SeaweedServer:
    """The real S3 server, with the credentials of its writer in the environment."""
    for name, value in seaweed_server.environment("writer").items():
        monkeypatch.setenv(name, value)
    return seaweed_server


@pytest.fixture
def faulty_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """A server that answers what the test tells it to, and some credentials, which it does not check."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anyone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with FaultyServer() as server:
        yield server
