"""Keys and signatures that several tests share. Keys are made once: what tests need is that they differ."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from kernelforge.digest import Digest
from kernelforge.lockfile import Lockfile
from kernelforge.release.keys import SigningKey
from kernelforge.release.provenance import LOCAL_BUILDER, Provenance, SourceState
from kernelforge.release.signing import sign
from kernelforge.release.statement import Statement
from tests.small_release import LOCK

OURS, NEXT, STRANGER = SigningKey.new(), SigningKey.new(), SigningKey.new()
NOW = datetime(2027, 1, 31, 9, 30, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


def provenance(lock: Lockfile = LOCK) -> Provenance:
    """That of a build in CI."""
    source = SourceState("0123456789abcdef" * 2 + "01234567", is_dirty=False)
    return Provenance.of(lock, domain="release", source=source, builder=LOCAL_BUILDER, version="1.2.3")


def statement(lock: Digest = LOCK.digest, *, issued: datetime = NOW, expires: datetime | None = None) -> Statement:
    """About the lockfile with this digest."""
    return Statement(lock, provenance(), issued, expires)


def signature(lock: Digest = LOCK.digest, key: SigningKey = OURS, *, expires: datetime | None = None) -> bytes:
    """The envelope of ``statement``."""
    return sign(statement(lock, expires=expires), key)
