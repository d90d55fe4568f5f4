"""Names of the objects in a store (layout ``v1``): the one place that spells them.

    kf.json                                                format marker, see ``marker``
    v1/blobs/sha256/ab/<64 hex>                            stored bytes, named by their own sha256
    v1/<domain>/actions/ab/<64 hex>.json                   build record of a key digest
    v1/<domain>/conflicts/<key>/<outputs>.json             a second, different result for the same key digest
    v1/locks/sha256/<64 hex>.json                          lockfile, named by its own sha256
    v1/locks/sha256/<64 hex>.sig/<key id>.dsse.json        a signature over that lockfile
    v1/locks/sha256/<64 hex>.about/<kind>-<64 hex>.json    a document about that lockfile, named by its own sha256
    v1/refs/<deployment>/<channel>.dsse.json               which lockfile a channel points at: signed, moved
    v1/refs-log/<deployment>/<channel>/<serial>.json       every move of that channel
    v1/pins/<name>.json                                    a lockfile that is kept whatever else happens
    v1/gc/...                                              what garbage collection and publishers tell each other
    v1/quarantine/...                                      damaged objects, and the evidence

A domain (``dev``, ``release``) keeps build records of different trust apart. Blobs need none: their name proves them.
All but refs, and two documents under ``gc`` and ``quarantine``, are written once.
"""

from __future__ import annotations

import re

from kernelforge.digest import Digest
from kernelforge.errors import UsageError

MARKER = "kf.json"

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_WORD = re.compile(r"[a-z][a-z0-9-]{0,31}")
_NAME_LIMIT = 512
#: Words that stand, or will stand, where a domain stands.
_RESERVED = frozenset({"blobs", "locks", "refs", "refs-log", "pins", "gc", "quarantine"})
_SELF_NAMED = re.compile(
    r"v1/blobs/sha256/([0-9a-f]{2})/(?P<blob>\1[0-9a-f]{62})|v1/locks/sha256/(?P<lock>[0-9a-f]{64})\.json"
)
_KEY_ID = re.compile(r"[0-9a-f]{8,64}")

GC_PREFIX = "v1/gc/"
LOCKS_PREFIX = "v1/locks/sha256/"
PINS_PREFIX = "v1/pins/"
QUARANTINE_PREFIX = "v1/quarantine/"
REFS_PREFIX = "v1/refs/"
REFS_LOG_PREFIX = "v1/refs-log/"


def blob_name(stored_digest: Digest) -> str:
    """Where stored bytes are."""
    return f"v1/blobs/sha256/{stored_digest.hex[:2]}/{stored_digest.hex}"


def digest_in(name: str) -> Digest | None:
    """The sha256 that the object of this name must have: that of blobs and lockfiles. None: the name says nothing."""
    named = _SELF_NAMED.fullmatch(name)
    return Digest(named["blob"] or named["lock"]) if named else None


def action_name(domain: str, key_digest: Digest) -> str:
    """Where the build record of a key digest is."""
    return f"v1/{domain}/actions/{key_digest.hex[:2]}/{key_digest.hex}.json"


def conflict_name(domain: str, key_digest: Digest, outputs_digest: Digest) -> str:
    """Where a build record goes that lost to another one with the same key digest."""
    return f"v1/{domain}/conflicts/{key_digest.hex}/{outputs_digest.hex}.json"


def lock_name(lock_digest: Digest) -> str:
    """Where a lockfile is."""
    return f"v1/locks/sha256/{lock_digest.hex}.json"


def signature_name(lock_digest: Digest, key_id: str) -> str:
    """Where the signature over a lockfile by the key with this id (hexadecimal) is."""
    if not _KEY_ID.fullmatch(key_id):
        raise UsageError(f"{key_id!r} is not the id of a key", hint="it has 8 to 64 hexadecimal digits")
    return f"{LOCKS_PREFIX}{lock_digest.hex}.sig/{key_id}.dsse.json"


def ref_name(deployment: str, channel: str) -> str:
    """Where the signed ref of a channel is."""
    return f"{REFS_PREFIX}{_part(deployment, 'deployment')}/{_part(channel, 'channel')}.dsse.json"


def ref_log_name(deployment: str, channel: str, serial: int) -> str:
    """Where the move of a channel to this serial is written down; names of one channel sort by serial."""
    return f"{REFS_LOG_PREFIX}{_part(deployment, 'deployment')}/{_part(channel, 'channel')}/{serial:010d}.json"


def pin_name(name: str) -> str:
    """Where a pin is."""
    return f"{PINS_PREFIX}{_part(name, 'pin')}.json"


def _part(name: str, what: str) -> str:
    # Room for what is put behind it; a name of the longest kind would not be one with it.
    if not _PART.fullmatch(name) or len(name) > 100:
        raise UsageError(
            f"{name!r} cannot name a {what}", hint="letters, digits, '.', '_' and '-' (not first), 100 at most"
        )
    return name


def about_name(lock_digest: Digest, kind: str, document_digest: Digest) -> str:
    """Where a document about a lockfile is; ``kind`` is a word such as ``facts``."""
    if not _WORD.fullmatch(kind):
        raise UsageError(f"{kind!r} is not a kind of document", hint="use lower-case letters, digits and hyphens")
    return f"v1/locks/sha256/{lock_digest.hex}.about/{kind}-{document_digest.hex}.json"


def is_domain(domain: str) -> bool:
    """Whether ``domain`` can stand in a name without being taken for something else."""
    return bool(_WORD.fullmatch(domain)) and domain not in _RESERVED


def check_domain(domain: str) -> None:
    """``UsageError`` unless ``is_domain``."""
    if not is_domain(domain):
        raise UsageError(
            f"{domain!r} is not a domain of build records",
            hint=f"use lower-case letters, digits and hyphens, and none of {', '.join(sorted(_RESERVED))}",
        )


def is_name(name: str) -> bool:
    """Whether a store may hold an object of this name: parts of letters, digits, ``.``, ``_``, ``-``, joined by ``/``.

    A part starts with a letter or digit, so ``..``, hidden files and absolute paths are none.
    """
    return len(name) <= _NAME_LIMIT and all(_PART.fullmatch(part) for part in name.split("/"))


def check_name(name: str) -> None:
    """``UsageError`` unless ``is_name``."""
    if not is_name(name):
        raise UsageError(
            f"{name[:_NAME_LIMIT]!r} cannot name an object",
            hint="parts of letters, digits, '.', '_' and '-' (not first), joined by '/'",
        )
