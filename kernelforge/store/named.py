"""What a stored object is, told from its name: the reverse of ``layout``.

Names that no function of ``layout`` makes are ``UNKNOWN``: another program's, or a later version's. Nobody may delete
those.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from kernelforge.store.layout import MARKER, is_domain


class Kind(enum.Enum):
    """One for each line of the layout. The values are words for people."""

    MARKER = "marker"
    BLOB = "blob"
    RECORD = "build record"
    CONFLICT = "conflict record"
    LOCK = "lockfile"
    SIGNATURE = "signature"
    COMPANION = "companion"
    REF = "ref"
    MOVE = "move of a channel"
    PIN = "pin"
    ANNOUNCEMENT = "announcement"
    BOOKKEEPING = "bookkeeping"
    EVIDENCE = "quarantined"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Named:
    """``digest``: of a blob the stored one, of a record the key digest, of a lockfile and what stands beside it the
    lockfile's; 32 bytes, empty for all else. ``channel`` (``deployment/channel``) and ``serial`` are of refs and moves.
    """

    kind: Kind
    digest: bytes = b""
    channel: str = ""
    serial: int = 0


_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_HEX = r"(?P<hex>[0-9a-f]{64})"
_SHAPES = tuple(
    (kind, re.compile(shape))
    for kind, shape in (
        (Kind.BLOB, rf"v1/blobs/sha256/(?P<fan>[0-9a-f]{{2}})/{_HEX}"),
        (Kind.RECORD, rf"v1/(?P<domain>[a-z0-9-]+)/actions/(?P<fan>[0-9a-f]{{2}})/{_HEX}\.json"),
        (Kind.LOCK, rf"v1/locks/sha256/{_HEX}\.json"),
        (Kind.SIGNATURE, rf"v1/locks/sha256/{_HEX}\.sig/[0-9a-f]{{8,64}}\.dsse\.json"),
        (Kind.COMPANION, rf"v1/locks/sha256/{_HEX}\.about/[a-z][a-z0-9-]{{0,31}}-[0-9a-f]{{64}}\.json"),
        (Kind.CONFLICT, rf"v1/(?P<domain>[a-z0-9-]+)/conflicts/{_HEX}/[0-9a-f]{{64}}\.json"),
        (Kind.REF, rf"v1/refs/(?P<channel>{_PART}/{_PART})\.dsse\.json"),
        (Kind.MOVE, rf"v1/refs-log/(?P<channel>{_PART}/{_PART})/(?P<serial>[0-9]{{10}})\.json"),
        (Kind.PIN, rf"v1/pins/{_PART}\.json"),
        (Kind.ANNOUNCEMENT, r"v1/gc/announced/[0-9a-f]{64}\.json"),
        (Kind.BOOKKEEPING, r"v1/gc/[a-z]+\.json|v1/quarantine/[a-z]+\.json"),
        (Kind.EVIDENCE, rf"v1/quarantine/{_PART}/.+"),
        (Kind.MARKER, re.escape(MARKER)),
    )
)


def named(name: str) -> Named:
    """What stands under this name."""
    for kind, shape in _SHAPES:
        found = shape.fullmatch(name)
        if found:
            return _named(kind, found.groupdict())
    return Named(Kind.UNKNOWN)


def _named(kind: Kind, parts: dict[str, str]) -> Named:
    hex_digits = parts.get("hex", "")
    if parts.get("fan", hex_digits[:2]) != hex_digits[:2] or not is_domain(parts.get("domain", "dev")):
        return Named(Kind.UNKNOWN)
    return Named(kind, bytes.fromhex(hex_digits), parts.get("channel", ""), int(parts.get("serial", "0")))
