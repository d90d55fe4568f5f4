"""A sha256 as a value: the only name that stored bytes ever have.

Knows nothing of what is hashed: the canonical bytes come from ``encoding``, stored bytes from ``store``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelforge.errors import InputError

if TYPE_CHECKING:
    import mmap

_TEXT = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True, order=True, slots=True)
class Digest:
    """A sha256. ``Digest.parse(str(digest)) == digest`` always holds."""

    hex: str

    @classmethod
    def of(cls, data: bytes | mmap.mmap) -> Digest:
        """Digest of ``data``."""
        return cls(hashlib.sha256(data).hexdigest())

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Read ``sha256:<64 lower-case hex digits>``; anything else raises ``InputError``."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise InputError(f"{text!r} is not a digest", hint="a digest reads sha256:<64 lower-case hex digits>")
        return cls(match.group(1))

    @property
    def short(self) -> str:
        """The first 12 hex digits, for people; never used as a name."""
        return self.hex[:12]

    def __str__(self) -> str:
        return f"sha256:{self.hex}"
