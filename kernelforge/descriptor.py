"""Which bytes are meant: how a blob is stored, and what it holds once it is decoded.

Lockfiles and build records both carry descriptors, so this is a leaf: it knows no store and no compressor. Everything
that a reader needs in order to bound and check a download is in here, so a reader never trusts a store's own word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kernelforge.digest import Digest
from kernelforge.errors import InputError

Encoding = Literal["raw", "zstd"]

#: No blob is larger, stored or decoded, in bytes. The largest pack seen so far has 2.1 MB; the bound keeps a forged
#: descriptor from making a reader allocate whatever it likes.
MAX_SIZE_BYTES = 1 << 30

_FIELDS = ("stored_digest", "stored_size_bytes", "encoding", "content_digest", "content_size_bytes")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Stored bytes (what a store holds under ``stored_digest``) and content (what they decode to).

    Guarantees, with ``InputError`` otherwise: both sizes lie in 0..``MAX_SIZE_BYTES``; ``raw`` means that stored bytes
    and content are the same bytes; ``zstd`` means that the stored frame is smaller than its content.
    """

    stored_digest: Digest
    stored_size_bytes: int
    encoding: Encoding
    content_digest: Digest
    content_size_bytes: int

    def __post_init__(self) -> None:
        for size_bytes in (self.stored_size_bytes, self.content_size_bytes):
            if not 0 <= size_bytes <= MAX_SIZE_BYTES:
                raise _refused(f"a size of {size_bytes} bytes is not in 0..{MAX_SIZE_BYTES}")
        if self.encoding == "raw":
            if (self.stored_digest, self.stored_size_bytes) != (self.content_digest, self.content_size_bytes):
                raise _refused("raw bytes are stored as they are, but stored and content differ")
        elif self.encoding != "zstd":
            raise _refused(f"{self.encoding!r} is not an encoding (raw or zstd)")
        elif self.stored_size_bytes >= self.content_size_bytes:
            raise _refused("a zstd frame must be smaller than its content")

    @classmethod
    def raw(cls, content: bytes) -> Descriptor:
        """Descriptor of ``content`` stored as it is."""
        digest = Digest.of(content)
        return cls(digest, len(content), "raw", digest, len(content))

    def to_json(self) -> dict[str, Any]:
        """A JSON object with one member per field; ``Descriptor.from_json`` gives an equal descriptor back."""
        return {
            "stored_digest": str(self.stored_digest),
            "stored_size_bytes": self.stored_size_bytes,
            "encoding": self.encoding,
            "content_digest": str(self.content_digest),
            "content_size_bytes": self.content_size_bytes,
        }

    @classmethod
    def from_json(cls, value: object, *, where: str = "") -> Descriptor:
        """Read exactly what ``to_json`` writes; ``InputError`` at ``where`` for anything else, unknown members too."""
        if not isinstance(value, dict) or sorted(value) != sorted(_FIELDS):
            raise _refused(f"a descriptor is an object with exactly the members {', '.join(_FIELDS)}", where)
        if type(value["stored_size_bytes"]) is not int or type(value["content_size_bytes"]) is not int:
            raise _refused("the sizes of a descriptor are integers", where)
        if not all(isinstance(value[name], str) for name in ("stored_digest", "encoding", "content_digest")):
            raise _refused("the digests and the encoding of a descriptor are strings", where)
        try:
            stored_digest, content_digest = Digest.parse(value["stored_digest"]), Digest.parse(value["content_digest"])
            return cls(
                stored_digest,
                value["stored_size_bytes"],
                value["encoding"],
                content_digest,
                value["content_size_bytes"],
            )
        except InputError as error:
            raise _refused(error.problem, where) from error


def _refused(problem: str, where: str = "") -> InputError:
    return InputError(
        problem, hint="take the document from the build that wrote it; do not edit it by hand", where=where
    )
