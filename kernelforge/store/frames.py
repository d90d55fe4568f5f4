"""zstd frames: the one place that compresses and decompresses.

``ZstdDecompressor.decompress`` ignores ``max_output_size`` when the frame's header names a size (a frame of 32 KB
became 1 GiB), and ``stream_reader`` ends early without an error on a truncated frame. So the header is compared with
what the caller knows before anything is allocated, and the length afterwards. Knows no store.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernelforge.errors import ObjectCorrupt

if TYPE_CHECKING:
    import zstandard

# Part of what decides the stored bytes: a change gives new blobs beside the old ones. On 62 objects of 24 KB, level 9
# leaves 0.247 of the size in 0.7 ms each, level 3 0.264 in 0.2 ms, level 19 0.232 in 17 ms.
LEVEL = 9
# Whoever decompresses touches all of the window. With 1 MiB a pack of 5.5 MB gets 5 % larger than with the 4 MiB of
# the level, and is decompressed in 1.9 ms instead of 3.1.
_WINDOW_LOG = 20
# Frames of level 9 alone, which earlier builds made, have windows up to this; one that wants more is not ours.
_WINDOW_LIMIT_BYTES = 8 << 20
_PIECE_BYTES = 128 << 10


def import_beside() -> None:
    """Begin to import what decompresses, in a thread: 2 to 4 ms that a request in flight hides."""
    if "zstandard" not in sys.modules:
        threading.Thread(target=importlib.import_module, args=("zstandard",), daemon=True).start()


def compress(content: bytes) -> bytes:
    """One frame with its content's size in the header; the same bytes each time from the same version of zstd."""
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, source_size=len(content), write_content_size=True, write_checksum=False
    )
    if parameters.window_log > _WINDOW_LOG:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            LEVEL, source_size=len(content), window_log=_WINDOW_LOG, write_content_size=True, write_checksum=False
        )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(content)


def decompress(frame: bytes, *, size_bytes: int, where: str) -> bytes:
    """The ``size_bytes`` bytes that the frame holds; ``ObjectCorrupt`` if it is not exactly one frame of that size."""
    with _zstd_errors(where):
        content = _decompressor(frame, size_bytes, where).decompress(frame, allow_extra_data=False)
    _check_size(len(content), size_bytes, where)
    return content


def decompressed(frame: bytes, *, size_bytes: int, where: str) -> Iterator[bytes]:
    """The same in pieces; what comes after the frame is not looked at. ``ObjectCorrupt`` may come after pieces."""
    found_bytes = 0
    with _zstd_errors(where):
        reader = _decompressor(frame, size_bytes, where).stream_reader(frame)
        while found_bytes <= size_bytes and (piece := reader.read(_PIECE_BYTES)):
            found_bytes += len(piece)
            yield piece
    _check_size(found_bytes, size_bytes, where)


def _decompressor(frame: bytes, size_bytes: int, where: str) -> zstandard.ZstdDecompressor:
    import zstandard

    header = zstandard.get_frame_parameters(frame)
    if header.content_size != size_bytes:
        raise _corrupt(f"the frame announces {header.content_size} bytes, {size_bytes} are expected", where)
    return zstandard.ZstdDecompressor(max_window_size=_WINDOW_LIMIT_BYTES)


@contextlib.contextmanager
def _zstd_errors(where: str) -> Iterator[None]:
    import zstandard

    try:
        yield
    except zstandard.ZstdError as error:
        raise _corrupt(str(error), where) from error


def _check_size(found_bytes: int, size_bytes: int, where: str) -> None:
    if found_bytes != size_bytes:
        raise _corrupt(f"the frame held {found_bytes} bytes, {size_bytes} are expected", where)


def _corrupt(problem: str, where: str) -> ObjectCorrupt:
    return ObjectCorrupt(f"not the zstd frame that it should be: {problem}", hint="build again", where=where)
