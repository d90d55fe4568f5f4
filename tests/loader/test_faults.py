"""A load whose store is slow, down or wrong: a typed error within the budget, or the cache; never a part of a pack.

A proxy in front of a real S3 server does the damage. Upper bounds of time are those of the budget plus generous slack:
without the budget every one of the silent faults would last for minutes.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kernelforge
from kernelforge import PinnedDigest
from kernelforge.descriptor import Descriptor
from kernelforge.errors import ObjectCorrupt, ObjectMissing, StoreDenied, StoreError, StoreUnavailable
from kernelforge.loader.budget import DEFAULT_BUDGET_S
from kernelforge.store.blobs import put_blob
from kernelforge.store.layout import blob_name
from kernelforge.store.locate import open_store
from tests import fault_proxy
from tests.fault_proxy import Fault, FaultProxy
from tests.loader.conftest import Release
from tests.loader.fake_release import H200, KEYS, with_pack
from tests.loader.jit_compilers import compiles, prepared_key
from tests.loader.python_process import ROOT, run_python
from tests.loader.scale import Scale
from tests.seaweed import SeaweedServer
from tests.store import faults as wrong_servers
from tests.store.conformance import at_once

pytestmark = pytest.mark.slow

SHORT_BUDGET_S = 1.5
SLACK_S = 5.0


@pytest.fixture
def remote(release: Release, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> Release:
    """The release, its pack in the real server."""
    for name, value in seaweed_server.environment("writer").items():
        monkeypatch.setenv(name, value)
    put_blob(open_store(seaweed_server.location("faults")), release.library, compress=False)
    return release


@pytest.fixture
def proxy(seaweed_server: SeaweedServer) -> Iterator[FaultProxy]:
    with FaultProxy(seaweed_server.endpoint_url) as running:
        yield running


def through(proxy: FaultProxy | str) -> str:
    return f"s3://kernels/faults?endpoint={proxy if isinstance(proxy, str) else proxy.url}"


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def refused_within_budget(
    load: Callable[[], object], kind: type[StoreError], *, seconds: float = DEFAULT_BUDGET_S
) -> str:
    started = time.monotonic()
    with pytest.raises(kind) as refusal:
        load()
    assert time.monotonic() - started < seconds + SLACK_S
    assert type(refusal.value) is kind
    return str(refusal.value)


# What is silent has to be cut off; what answers may take the default, which it does not need.
FAULTS: dict[str, tuple[Fault, type[StoreError], float]] = {
    "reset": (fault_proxy.reset, StoreUnavailable, DEFAULT_BUDGET_S),
    "black hole": (fault_proxy.black_hole, StoreUnavailable, SHORT_BUDGET_S),
    "503": (fault_proxy.slow_down, StoreUnavailable, DEFAULT_BUDGET_S),
    "truncated": (fault_proxy.truncated, StoreUnavailable, DEFAULT_BUDGET_S),
    "stalled": (fault_proxy.stalled, StoreUnavailable, SHORT_BUDGET_S),
    "dripping": (fault_proxy.dripping, StoreUnavailable, SHORT_BUDGET_S),
    "bit flipped": (fault_proxy.bit_flipped, ObjectCorrupt, DEFAULT_BUDGET_S),
    "another object, smaller": (fault_proxy.instead(b"another object"), ObjectCorrupt, DEFAULT_BUDGET_S),
    "another object, larger": (fault_proxy.instead(b"x" * (1 << 20)), ObjectCorrupt, DEFAULT_BUDGET_S),
}


class TestFaultOnTheWay:
    def test_the_proxy_alone_does_no_harm(self, remote: Release, proxy: FaultProxy) -> None:
        """Keeps the other tests honest: the same load through the same proxy works."""
        kernels = remote.load(store=through(proxy))
        assert kernels[KEYS[1]](1) == 2
        assert proxy.requests == 1

    @pytest.mark.parametrize("name", FAULTS)
    def test_cold_it_is_a_typed_error_in_time_and_leaves_nothing(
        self, remote: Release, proxy: FaultProxy, name: str
    ) -> None:
        proxy.fault, kind, budget_s = FAULTS[name]
        refused_within_budget(lambda: remote.load(store=through(proxy), budget_s=budget_s), kind, seconds=budget_s)
        assert proxy.requests >= 1
        assert files_below(remote.cache) == []
        assert not remote.trace.exists()

    @pytest.mark.parametrize("name", ["503", "bit flipped"])
    def test_trouble_with_the_store_is_no_miss_that_jit_could_answer(
        self, remote: Release, proxy: FaultProxy, name: str, tmp_path: Path
    ) -> None:
        """A fleet that compiles everything because its store is down would never be noticed, and make it worse."""
        proxy.fault, kind, _ = FAULTS[name]
        jit = {"policy": "jit", "compile_missing": "tests.loader.jit_compilers:prepared"}
        require = {Scale: [prepared_key(tmp_path / "world")]}
        refused_within_budget(lambda: remote.load(store=through(proxy), require=require, **jit), kind)
        assert compiles(tmp_path / "world") == 0
        assert files_below(remote.cache) == []

    @pytest.mark.parametrize("name", FAULTS)
    def test_warm_the_store_is_not_even_asked(self, remote: Release, proxy: FaultProxy, name: str) -> None:
        remote.load()
        proxy.fault = FAULTS[name][0]
        kernels = remote.load(store=through(proxy))
        assert kernels.stats().pack_source == "cache"
        assert kernels[KEYS[1]](1) == 2
        assert proxy.requests == 0

    @pytest.mark.parametrize("name", ["reset", "503", "truncated", "bit flipped"])
    def test_a_fault_that_passes_costs_a_try(self, remote: Release, proxy: FaultProxy, name: str) -> None:
        proxy.fault = fault_proxy.first(1, FAULTS[name][0])
        kernels = remote.load(store=through(proxy))
        assert kernels[KEYS[1]](1) == 2
        assert proxy.requests == 2
        assert files_below(remote.cache) == [remote.cached]

    def test_nobody_listens(self, remote: Release, proxy: FaultProxy) -> None:
        proxy.refuse()
        refused_within_budget(lambda: remote.load(store=through(proxy)), StoreUnavailable)
        assert files_below(remote.cache) == []

    def test_damage_twice_and_a_slow_store_share_one_budget(self, remote: Release, proxy: FaultProxy) -> None:
        """Each call has a deadline; without one budget over all of them, calls in a row add up."""

        def slow_and_wrong(exchange: fault_proxy.Exchange) -> None:
            exchange.is_closing.wait(2.0)
            fault_proxy.bit_flipped(exchange)

        proxy.fault = slow_and_wrong
        refused_within_budget(lambda: remote.load(store=through(proxy), budget_s=3.5), StoreUnavailable, seconds=3.5)
        assert proxy.requests == 2


class TestManyAtOnce:
    def test_32_loaders_get_through_a_store_that_is_overloaded_at_first(
        self, remote: Release, proxy: FaultProxy, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """F7: and they do not come back in step."""
        refused = 32 * 30 // 100 + 1
        proxy.fault = fault_proxy.first(refused, fault_proxy.slow_down)
        caplog.set_level(logging.DEBUG, logger="kernelforge.store.retry")

        lock, trust = remote.lock.to_bytes(), PinnedDigest(remote.lock.digest)

        def load(cache: Path) -> int:
            kernels = kernelforge.load(lock, trust=trust, device=H200, store=through(proxy), cache=cache)
            return int(kernels[KEYS[1]](1))

        loaders = [lambda cache=tmp_path / "caches" / str(number): load(cache) for number in range(32)]
        assert at_once(loaders) == [2] * 32
        pauses = [record.args[0] for record in caplog.records if record.msg.startswith("trying again")]
        assert len(pauses) == refused
        assert proxy.requests == 32 + refused
        assert len({round(float(str(pause)), 4) for pause in pauses}) > refused // 2


class TestWrongAddress:
    """F8: each of these hung a program or killed a job elsewhere."""

    def test_no_such_bucket(self, remote: Release, seaweed_server: SeaweedServer) -> None:
        location = f"s3://no-such-bucket/faults?endpoint={seaweed_server.endpoint_url}"
        said = refused_within_budget(lambda: remote.load(store=location), StoreUnavailable)
        assert "NoSuchBucket" in said

    def test_no_such_host(self, remote: Release) -> None:
        said = refused_within_budget(
            lambda: remote.load(store=through("http://no-such-host.invalid")), StoreUnavailable
        )
        assert "no-such-host.invalid" in said or "complete answer" in said

    def test_a_port_that_accepts_and_is_silent(self, remote: Release) -> None:
        with wrong_servers.black_hole() as address:
            refused_within_budget(
                lambda: remote.load(store=through(f"http://{address}"), budget_s=SHORT_BUDGET_S),
                StoreUnavailable,
                seconds=SHORT_BUDGET_S,
            )

    def test_wrong_credentials_are_no_miss(
        self, remote: Release, monkeypatch: pytest.MonkeyPatch, proxy: FaultProxy
    ) -> None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        refused_within_budget(lambda: remote.load(store=through(proxy)), StoreDenied)
        assert proxy.requests == 1

    def test_a_pack_that_the_store_does_not_have_is_missing(self, remote: Release, proxy: FaultProxy) -> None:
        lock = with_pack(remote.lock, blob=Descriptor.raw(b"never published"))
        refused_within_budget(lambda: remote.load(lock, store=through(proxy)), ObjectMissing)
        assert proxy.requests == 1


class TestCredentials:
    def test_a_silent_metadata_service_is_given_up_soon(
        self, remote: Release, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """F4: outside a cloud the address of the metadata service leads nowhere, and clients wait there for minutes."""
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
            monkeypatch.delenv(name, raising=False)
        with wrong_servers.black_hole() as address:
            monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{address}")
            said = refused_within_budget(
                lambda: remote.load(store=through(seaweed_server.endpoint_url)), StoreDenied, seconds=0.0
            )
        assert "credentials" in said


class TestProxyVariables:
    def test_an_excluded_endpoint_is_asked_directly(
        self, remote: Release, seaweed_server: SeaweedServer, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """F4: the endpoint is in NO_PROXY."""
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert remote.load(store=through(seaweed_server.endpoint_url)).stats().pack_source == "store"
        assert proxy.requests == 0

    def test_another_endpoint_is_asked_through_the_proxy(
        self, remote: Release, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NO_PROXY", "elsewhere.invalid")
        with wrong_servers.FaultyServer() as http_proxy:
            http_proxy.otherwise(wrong_servers.plain(200, remote.library))
            monkeypatch.setenv("HTTP_PROXY", http_proxy.url)
            assert remote.load(store=through("http://s3.invalid")).stats().pack_source == "store"
            (request,) = http_proxy.requests
        name = blob_name(remote.lock.packs["h200-sxm"].blob.stored_digest)
        assert request.path == f"http://s3.invalid/kernels/faults/{name}"


OFFLINE = """
import json, sys
sys.modules["torch"] = None  # takes seconds to import
import tvm_ffi
opened = []
sys.addaudithook(lambda event, arguments: opened.append(event) if event.startswith("socket.") else None)
from kernelforge import LocalFile, load
from tests.loader.fake_release import H200, KEYS
lock, options = sys.argv[1], json.loads(sys.argv[2])
kernels = load(lock, trust=LocalFile(), device=H200, **options)
print(json.dumps([kernels[KEYS[1]](1), opened]))
"""


class TestOffline:
    @pytest.mark.parametrize("store", [None, "s3://kernels/faults?endpoint=http://127.0.0.1:1"])
    def test_a_warm_load_opens_no_socket(self, release: Release, store: str | None) -> None:
        """F4: with no store given, and with one that is not needed."""
        release.load()
        options = {"cache": str(release.cache), "store": store}
        lock = release.folder / "test.lock.json"
        assert json.loads(run_python(OFFLINE, str(lock), json.dumps(options))) == [2, []]

    def test_a_warm_load_needs_no_network(self, release: Release) -> None:
        unshare = shutil.which("unshare")
        if unshare is None or subprocess.run([unshare, "-n", "true"], capture_output=True, check=False).returncode:
            pytest.skip("no network namespaces for this user")
        release.load()
        lock = release.folder / "test.lock.json"
        options = json.dumps({"cache": str(release.cache), "store": "s3://kernels/faults?endpoint=http://127.0.0.1:1"})
        command = [unshare, "-n", sys.executable, "-c", OFFLINE, str(lock), options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [2, []]
