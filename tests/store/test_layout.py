from __future__ import annotations

import pytest

from kernelforge.digest import Digest
from kernelforge.errors import UsageError
from kernelforge.store import layout

DIGEST = Digest("ab" + "0" * 62)
OTHER = Digest("cd" + "1" * 62)


def test_names_are_those_of_the_format() -> None:
    """Other programs, bucket policies and older releases know these names."""
    assert layout.MARKER == "kf.json"
    assert layout.blob_name(DIGEST) == f"v1/blobs/sha256/ab/{DIGEST.hex}"
    assert layout.action_name("dev", DIGEST) == f"v1/dev/actions/ab/{DIGEST.hex}.json"
    assert layout.conflict_name("dev", DIGEST, OTHER) == f"v1/dev/conflicts/{DIGEST.hex}/{OTHER.hex}.json"
    assert layout.lock_name(DIGEST) == f"v1/locks/sha256/{DIGEST.hex}.json"
    assert layout.about_name(DIGEST, "facts", OTHER) == f"v1/locks/sha256/{DIGEST.hex}.about/facts-{OTHER.hex}.json"


def test_all_of_them_may_be_stored() -> None:
    names = [
        layout.MARKER,
        layout.blob_name(DIGEST),
        layout.action_name("dev", DIGEST),
        layout.conflict_name("dev", DIGEST, OTHER),
        layout.lock_name(DIGEST),
        layout.about_name(DIGEST, "facts", OTHER),
    ]
    assert [name for name in names if not layout.is_name(name)] == []


def test_digest_that_was_never_checked_cannot_lead_outside() -> None:
    with pytest.raises(UsageError):
        layout.check_name(layout.blob_name(Digest("../../../../etc/passwd")))


@pytest.mark.parametrize("kind", ["", "a/b", "..", "Facts", "facts-" + "x" * 40])
def test_kinds_of_documents_are_words(kind: str) -> None:
    with pytest.raises(UsageError):
        layout.about_name(DIGEST, kind, OTHER)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        (layout.blob_name(DIGEST), DIGEST),
        (layout.lock_name(DIGEST), DIGEST),
        (layout.blob_name(DIGEST).replace("/ab/", "/cd/"), None),
        (layout.blob_name(DIGEST) + "0", None),
        (layout.action_name("dev", DIGEST), None),
        (layout.about_name(DIGEST, "facts", OTHER), None),
        (layout.signature_name(DIGEST, "0" * 64), None),
        (layout.ref_name("qwen3-8b", "prod"), None),
        ("kf.json", None),
    ],
)
def test_only_names_of_blobs_and_lockfiles_say_which_bytes_are_right(name: str, digest: Digest | None) -> None:
    assert layout.digest_in(name) == digest
