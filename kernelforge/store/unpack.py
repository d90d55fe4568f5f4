"""From the bytes that a store keeps for a blob to its content: decoded, hashed and written beside each other.

A pod waits for this at every cold start. In a fresh process a pack of 5.5 MB took 7.5 ms one step after the other and
4.5 ms this way. Knows no store: what comes in is what ``blobs.get_stored`` has checked.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable
from types import TracebackType

from kernelforge.descriptor import Descriptor
from kernelforge.digest import Digest
from kernelforge.errors import ObjectCorrupt
from kernelforge.store import frames


def unpack(descriptor: Descriptor, stored: bytes, write: Callable[[bytes], object], *, where: str) -> None:
    """Give the content to ``write`` piece by piece; ``ObjectCorrupt`` if that was not what ``descriptor`` promises.

    Nobody knows before the end whether it is: whoever writes keeps what was written only if this returns. ``stored``
    are the bytes with ``stored_digest``. Raises what ``write`` raises.
    """
    if descriptor.encoding == "raw":
        write(stored)
        return
    with _Sha256Beside() as sha256:
        for piece in frames.decompressed(stored, size_bytes=descriptor.content_size_bytes, where=where):
            sha256.add(piece)
            write(piece)
    check_content(sha256.digest, descriptor, where=where)


def check_content(found: Digest, descriptor: Descriptor, *, where: str) -> None:
    """``ObjectCorrupt`` unless the digest is that of the content."""
    if found != descriptor.content_digest:
        raise ObjectCorrupt("the content is not that of the descriptor", hint="build again", where=where)


class _Sha256Beside:
    """A sha256 that is computed in a thread while its pieces come in; ``digest`` is for after the block."""

    def __init__(self) -> None:
        self._pieces: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._sha256 = hashlib.sha256()
        self._thread = threading.Thread(target=self._run, name="kernelforge-sha256", daemon=True)

    @property
    def digest(self) -> Digest:
        return Digest(self._sha256.hexdigest())

    def add(self, piece: bytes) -> None:
        """The next bytes; an empty piece is none."""
        if piece:
            self._pieces.put(piece)

    def __enter__(self) -> _Sha256Beside:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pieces.put(b"")
        self._thread.join()

    def _run(self) -> None:
        while piece := self._pieces.get():
            self._sha256.update(piece)
