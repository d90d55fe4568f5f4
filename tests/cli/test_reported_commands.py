"""What users of other systems met, on our command line: damage at rest, lost blobs, bad keys.

The compiler is made up where a build has to compile, since all that counts here is what becomes of its results; the
objects, the linker, the stores and the files are real.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from kernelforge.cli.deployment import read_deployment
from kernelforge.cli.wanted_keys import plan_keys
from kernelforge.lockfile import Lockfile
from kernelforge.store import PruneStore, open_store
from kernelforge.store.damage import read_damage
from kernelforge.store.layout import blob_name
from tests.builder.made_up import Made, compile_by_making_up
from tests.cli.command import write_manifest
from tests.cli.device_image import device_image
from tests.cli.in_process import Kernelforge
from tests.cli.released import object_file
from tests.seaweed import BUCKET, SeaweedServer, client

STORE = ("--store", "file:store")
KERNEL = ("Copy", "{width: {choices: [32, 64]}}")


class Place(Protocol):
    """A store, and a way behind its back."""

    location: str

    def put(self, name: str, data: bytes) -> None:
        """Let other bytes stand under a name, whatever is there."""

    def remove(self, name: str) -> None:
        """Lose an object."""


@dataclass
class Folder:
    root: Path

    @property
    def location(self) -> str:
        return f"file:{self.root}"

    def put(self, name: str, data: bytes) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(data)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()


@dataclass
class Bucket:
    server: SeaweedServer
    prefix: str

    @property
    def location(self) -> str:
        return self.server.location(self.prefix)

    def put(self, name: str, data: bytes) -> None:
        client(self.server).put_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}", Body=data)

    def remove(self, name: str) -> None:
        client(self.server).delete_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}")


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder, and a real bucket with its writer's credentials in the environment."""
    if request.param == "file":
        return Folder(tmp_path / "store")
    server: SeaweedServer = request.getfixturevalue("seaweed_server")
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return Bucket(server, f"reported-{secrets.token_hex(6)}")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """What the compiler would give for each symbol."""
    manifest = write_manifest(tmp_path_factory.mktemp("compiled"), KERNEL)
    image = device_image("sm_90a")
    symbols = [key.symbol for key in plan_keys(read_deployment(manifest)).keys]
    return {symbol: Made(object_file(symbol, image), image) for symbol in symbols}


@dataclass(frozen=True)
class Built:
    """A deployment that was built into ``place``, and the command line beside it."""

    kernelforge: Kernelforge
    place: Place

    @property
    def lock_path(self) -> Path:
        return self.kernelforge.folder / "registry" / "releases" / "small.lock.json"

    @property
    def lock(self) -> Lockfile:
        return Lockfile.parse(self.lock_path.read_bytes())

    @property
    def store(self) -> PruneStore:
        return open_store(self.place.location)

    def build(self) -> dict[str, Any]:
        ran = self.kernelforge("build", "small.yaml", "--store", self.place.location, "--json")
        assert ran.code == 0, ran.err
        return ran.report

    def verify_deeply(self) -> list[str]:
        """The kinds of what was found, for which there is evidence unless something is simply not there."""
        ran = self.kernelforge("verify", self.lock_path, "--store", self.place.location, "--deep", "--json")
        findings = ran.report["findings"]
        assert ran.code == bool(findings), ran.err
        for finding in findings:
            assert bool(finding["evidence"]) == (finding["kind"] != "missing-blob")
        return [finding["kind"] for finding in findings]

    def pull(self) -> int:
        options = ("--store", self.place.location, "--trust-file", "--cache", "cache")
        return self.kernelforge("pull", self.lock_path, *options).code

    def cached(self) -> list[Path]:
        return [path for path in (self.kernelforge.folder / "cache").rglob("*") if path.is_file()]


@pytest.fixture
def built(
    place: Place,
    compiled: dict[str, Made],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Built:
    for variable in ("STORE", "LOCK", "CACHE", "PIN", "SIGNING_KEY", "TRUSTED_KEYS", "DOMAIN"):
        monkeypatch.delenv(f"KERNELFORGE_{variable}", raising=False)
    compile_by_making_up(monkeypatch, compiled)
    write_manifest(tmp_path, KERNEL)
    made = Built(Kernelforge(tmp_path, monkeypatch, capsys), place)
    assert made.build()["totals"]["built"] == 2
    return made


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
    "half": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + b"\0",
}


class TestDamageAtRest:
    """Elsewhere a truncated or empty entry poisoned the cache: it was loaded, or failed every build from then on."""

    @pytest.mark.parametrize("victim", ["object", "pack"])
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_it_is_never_loaded_is_found_deeply_and_the_next_build_heals_it(
        self, built: Built, damage: str, victim: str
    ) -> None:
        lock, before = built.lock, built.lock_path.read_bytes()
        [pack] = lock.packs.values()
        name = blob_name((pack.blob if victim == "pack" else lock.entries[0].object).stored_digest)
        honest = built.store.get(name, limit_bytes=1 << 24)
        built.place.put(name, DAMAGES[damage](honest))

        assert built.pull() == (3 if victim == "pack" else 0)
        assert len(built.cached()) == (victim == "object")
        assert built.verify_deeply() == ["corrupt-blob"]

        totals = built.build()["totals"]
        expected = {"hits": 1, "misses": 1, "built": 1} if victim == "object" else {"hits": 2, "misses": 0, "built": 0}
        assert expected.items() <= totals.items()
        assert (totals["store_errors"], totals["conflicts"]) == (0, 0)
        assert built.lock_path.read_bytes() == before
        assert built.store.get(name, limit_bytes=1 << 24) == honest
        assert built.verify_deeply() == []
        assert read_damage(built.store) == {}
        assert built.pull() == 0

    @pytest.mark.parametrize("victim", ["object", "pack"])
    def test_a_folder_in_the_place_of_a_blob_is_healed_too(self, built: Built, victim: str) -> None:
        lock, before = built.lock, built.lock_path.read_bytes()
        [pack] = lock.packs.values()
        name = blob_name((pack.blob if victim == "pack" else lock.entries[0].object).stored_digest)
        built.place.remove(name)
        built.place.put(f"{name}/x", b"in the way")
        assert built.pull() == (3 if victim == "pack" else 0)
        assert len(built.cached()) == (victim == "object")
        assert built.verify_deeply() == [
            "corrupt-blob" if isinstance(built.place, Folder) else "missing-blob",
        ]
        if isinstance(built.place, Folder):
            assert built.build()["totals"]["misses"] == (victim == "object")
            assert built.lock_path.read_bytes() == before
            assert built.verify_deeply() == []


class TestLostBlobs:
    """Elsewhere an index went on naming blobs that a partial loss of the bucket had taken."""

    def test_one_that_was_found_lost_is_built_again_and_the_others_are_hits(self, built: Built) -> None:
        before = built.lock_path.read_bytes()
        name = blob_name(built.lock.entries[1].object.stored_digest)
        built.place.remove(name)
        assert built.verify_deeply() == ["missing-blob"]
        report = built.build()
        assert {"hits": 1, "misses": 1, "built": 1, "reused": 1}.items() <= report["totals"].items()
        [reason] = [entry["reason"] for entry in report["entries"] if entry["outcome"] == "built"]
        assert reason.startswith("the store has lost the object that its record names")
        assert built.lock_path.read_bytes() == before
        assert built.verify_deeply() == []

    def test_without_a_lockfile_the_next_build_notices_by_itself(self, built: Built) -> None:
        before = built.lock_path.read_bytes()
        built.place.remove(blob_name(built.lock.entries[1].object.stored_digest))
        built.lock_path.unlink()
        assert {"hits": 1, "built": 1}.items() <= built.build()["totals"].items()
        assert built.lock_path.read_bytes() == before

    def test_with_the_pack_lost_as_well_a_build_notices_by_itself(self, built: Built) -> None:
        before = built.lock_path.read_bytes()
        [pack] = built.lock.packs.values()
        for blob in (pack.blob, built.lock.entries[0].object):
            built.place.remove(blob_name(blob.stored_digest))
        assert {"hits": 1, "built": 1}.items() <= built.build()["totals"].items()
        assert built.lock_path.read_bytes() == before
        assert built.verify_deeply() == []
