"""Names are read as they are written: each function of the layout gives a name of its own kind."""

from __future__ import annotations

import pytest

from kernelforge.digest import Digest
from kernelforge.store import layout
from kernelforge.store.announcements import PREFIX
from kernelforge.store.damage import INDEX
from kernelforge.store.named import Kind, Named, named
from kernelforge.store.sweeps import LEASE

ONE, TWO = Digest.of(b"1"), Digest.of(b"2")
RAW = bytes.fromhex(ONE.hex)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (layout.MARKER, Named(Kind.MARKER)),
        (layout.blob_name(ONE), Named(Kind.BLOB, RAW)),
        (layout.action_name("dev", ONE), Named(Kind.RECORD, RAW)),
        (layout.action_name("team-7", ONE), Named(Kind.RECORD, RAW)),
        (layout.conflict_name("release", ONE, TWO), Named(Kind.CONFLICT, RAW)),
        (layout.lock_name(ONE), Named(Kind.LOCK, RAW)),
        (layout.signature_name(ONE, TWO.hex), Named(Kind.SIGNATURE, RAW)),
        (layout.about_name(ONE, "facts", TWO), Named(Kind.COMPANION, RAW)),
        (layout.ref_name("Qwen3.8b", "prod-eu"), Named(Kind.REF, channel="Qwen3.8b/prod-eu")),
        (layout.ref_log_name("qwen", "prod", 12), Named(Kind.MOVE, channel="qwen/prod", serial=12)),
        (layout.pin_name("audit_2027"), Named(Kind.PIN)),
        (f"{PREFIX}{ONE.hex}.json", Named(Kind.ANNOUNCEMENT)),
        (LEASE, Named(Kind.BOOKKEEPING)),
        (INDEX, Named(Kind.BOOKKEEPING)),
        (f"{layout.QUARANTINE_PREFIX}{ONE.hex}/{TWO.hex}.bin", Named(Kind.EVIDENCE)),
        (layout.blob_name(ONE)[:-1], Named(Kind.UNKNOWN)),
        (layout.blob_name(ONE).upper(), Named(Kind.UNKNOWN)),
        (f"{layout.blob_name(ONE)}/x", Named(Kind.UNKNOWN)),
        (f"v1/blobs/sha256/{TWO.hex[:2]}/{ONE.hex}", Named(Kind.UNKNOWN)),
        (f"v1/locks/actions/{ONE.hex[:2]}/{ONE.hex}.json", Named(Kind.UNKNOWN)),
        (f"v2/locks/sha256/{ONE.hex}.json", Named(Kind.UNKNOWN)),
        ("", Named(Kind.UNKNOWN)),
    ],
)
def test_what_a_name_says(name: str, expected: Named) -> None:
    assert named(name) == expected
