"""A pod whose store has a mirror: the mirror first, the store when that is of no use, and no word lost about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelforge.store.blobs import put_blob
from kernelforge.store.file import FileStore
from kernelforge.store.locate import open_store
from tests import fault_proxy
from tests.fault_proxy import FaultProxy
from tests.loader.conftest import Release
from tests.loader.fake_release import KEYS
from tests.seaweed import SeaweedServer
from tests.store.conformance import replace_bytes

pytestmark = pytest.mark.slow


@pytest.fixture
def remote(release: Release, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> Release:
    """The release, its pack in the real server."""
    for name, value in seaweed_server.environment("writer").items():
        monkeypatch.setenv(name, value)
    put_blob(open_store(seaweed_server.location("mirrors")), release.library, compress=False)
    return release


@pytest.fixture
def near(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "near")


def location(proxy: FaultProxy, mirror: str) -> str:
    return f"s3://kernels/mirrors?endpoint={proxy.url}&mirror={mirror}"


def test_the_first_load_fills_the_mirror_and_the_second_needs_nothing_else(
    remote: Release, near: FileStore, seaweed_server: SeaweedServer
) -> None:
    with FaultProxy(seaweed_server.endpoint_url) as proxy:
        assert remote.load(store=location(proxy, near.location), cache=remote.cache / "1")[KEYS[1]](1) == 2
        assert proxy.requests == 1
        kernels = remote.load(store=location(proxy, near.location), cache=remote.cache / "2")
        assert kernels[KEYS[1]](1) == 2
        assert kernels.stats().pack_source == "store"
        assert proxy.requests == 1


def test_a_damaged_mirror_is_counted_and_put_right(
    remote: Release, near: FileStore, seaweed_server: SeaweedServer
) -> None:
    blob = put_blob(near, remote.library, compress=False)
    replace_bytes(near, blob, "flipped")
    with FaultProxy(seaweed_server.endpoint_url) as proxy:
        kernels = remote.load(store=location(proxy, near.location))
        assert kernels[KEYS[1]](1) == 2
        assert proxy.requests == 1
    assert kernels.stats().errors["ObjectCorrupt"] == 1
    assert near.get(f"v1/blobs/sha256/{blob.stored_digest.hex[:2]}/{blob.stored_digest.hex}", limit_bytes=1 << 30)


def test_a_mirror_that_is_silent_costs_a_quarter_of_the_budget(remote: Release, seaweed_server: SeaweedServer) -> None:
    with FaultProxy(seaweed_server.endpoint_url, fault_proxy.black_hole) as mirror:
        with FaultProxy(seaweed_server.endpoint_url) as proxy:
            away = f"s3://kernels/mirrors?endpoint={mirror.url}"
            kernels = remote.load(store=location(proxy, away), budget_s=6)
            assert kernels[KEYS[1]](1) == 2
        assert mirror.requests == 1
    assert kernels.stats().errors["StoreUnavailable"] == 1
