"""A signed lockfile in every place where one can be, and refs of a channel, on a clock that the test sets."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from kernelforge.digest import Digest
from kernelforge.loader.cache import PackCache
from kernelforge.loader.serials import SerialMemory
from kernelforge.loader.source import Channel, LockSource
from kernelforge.loader.trust import Trust, TrustedBytes, TrustedKeys, read_trusted
from kernelforge.release import refs
from kernelforge.release.envelope import seal
from kernelforge.release.keys import SigningKey
from kernelforge.release.signature import signature_path
from kernelforge.store.layout import lock_name, ref_name, signature_name
from kernelforge.store.memory import MemoryStore
from tests.release.signed import HOUR, NOW, OURS
from tests.small_release import LOCK

PROD = Channel("qwen3-8b", "prod")
TRUSTED = TrustedKeys([OURS.public])
DATA = LOCK.to_bytes()
# Bytes on which a parser fails in one way or another.
UNPARSABLE = (b"\xff not json", b"[" * 200_000, b'{"schema": "kernelforge.lock/1",' * 1000)


def ref(
    lock: Digest = LOCK.digest, serial: int = 1, *, key: SigningKey = OURS, until: datetime = NOW + HOUR, name: str = ""
) -> bytes:
    deployment = name or PROD.deployment
    made = refs.Ref(
        deployment,
        PROD.channel,
        lock,
        serial,
        until - 2 * HOUR,
        until,
        None,
        restored=None,
        back_to=None,
        actor="",
        reason="",
    )
    return seal(made.to_bytes(), refs.PAYLOAD_TYPE, key)


class World:
    """A lockfile in a store and as a file, each with its signature; a cache folder."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self.path = folder / "qwen3-8b.lock.json"
        self.cache = PackCache(folder / "cache")

    def put(self, data: bytes, envelope: bytes, key: SigningKey = OURS) -> Digest:
        """The lockfile, and what stands in the place of the signature by ``key``."""
        digest = Digest.of(data)
        self.path.write_bytes(data)
        self.put_object(lock_name(digest), data)
        beside = signature_path(self.path, key.public.key_id)
        beside.parent.mkdir(exist_ok=True)
        beside.write_bytes(envelope)
        self.put_object(signature_name(digest, key.public.key_id), envelope)
        return digest

    def move(self, envelope: bytes) -> None:
        """Point the channel."""
        self.put_object(ref_name(PROD.deployment, PROD.channel), envelope)

    def read(self, source: LockSource, trust: Trust = TRUSTED, *, now: datetime = NOW) -> TrustedBytes:
        """As a load does it."""
        return read_trusted(source, trust, store=lambda: self.store, serials=SerialMemory(self.cache), now=now)

    def put_object(self, name: str, data: bytes) -> None:
        """In the place of what is there."""
        self.store.delete(name)
        self.store.create(name, data)
