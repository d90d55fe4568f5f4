from __future__ import annotations

import struct
import subprocess
import sys
import tracemalloc

import pytest
import zstandard

from kernelforge.errors import ObjectCorrupt
from kernelforge.store.frames import compress, decompress

CONTENT = bytes(range(256)) * 40
FRAME = compress(CONTENT)
SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"abcd"


def test_round_trip() -> None:
    assert decompress(FRAME, size_bytes=len(CONTENT), where="here") == CONTENT


def test_equal_content_gives_equal_frames_in_every_process() -> None:
    """Stored bytes have names that other builds must arrive at too."""
    script = "import sys; from tests.store.test_frames import FRAME; sys.stdout.buffer.write(FRAME)"
    other = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout
    assert other == FRAME


def _without_size(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(content)


@pytest.mark.parametrize(
    ("frame", "size_bytes"),
    [
        (FRAME, len(CONTENT) - 1),
        (FRAME, len(CONTENT) + 1),
        (FRAME[: len(FRAME) // 2], len(CONTENT)),
        (FRAME[:-1], len(CONTENT)),
        (FRAME[:3], len(CONTENT)),
        (b"", 0),
        (b"", len(CONTENT)),
        (CONTENT, len(CONTENT)),
        (FRAME + b"x", len(CONTENT)),
        (FRAME + FRAME, len(CONTENT)),
        (FRAME + FRAME, 2 * len(CONTENT)),
        (FRAME + SKIPPABLE, len(CONTENT)),
        (SKIPPABLE + FRAME, len(CONTENT)),
        (_without_size(CONTENT), len(CONTENT)),
    ],
    ids=[
        *("smaller than announced", "larger than announced", "half", "last byte lost", "header only", "nothing"),
        *("nothing of something", "not a frame", "extra byte", "extra frame", "two frames", "extra skippable frame"),
        *("skippable frame first", "no size announced"),
    ],
)
def test_what_is_not_exactly_one_frame_of_that_size_is_corrupt(frame: bytes, size_bytes: int) -> None:
    with pytest.raises(ObjectCorrupt) as caught:
        decompress(frame, size_bytes=size_bytes, where="v1/blobs/x")
    assert caught.value.where == "v1/blobs/x"


def test_bomb_is_refused_before_it_takes_memory() -> None:
    """A frame of 4 KB that announces 128 MiB gets them, since zstandard ignores ``max_output_size`` then."""
    blocks, block_bytes = 1024, 128 << 10
    header = struct.pack("<IBQ", zstandard.MAGIC_NUMBER, 0b11100000, blocks * block_bytes)
    repeat = struct.pack("<I", block_bytes << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", block_bytes << 3 | 1 << 1 | 1)[:3] + b"\0"
    bomb = header + repeat * (blocks - 1) + last

    tracemalloc.start()
    with pytest.raises(ObjectCorrupt):
        decompress(bomb, size_bytes=1 << 20, where="here")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 1 << 20
    assert len(zstandard.ZstdDecompressor().decompress(bomb, max_output_size=1 << 20)) == blocks * block_bytes


def test_lying_header_is_corrupt() -> None:
    """The header may announce what is expected and the blocks hold something else."""
    frame = bytearray(FRAME)
    # Frame header descriptor 0x60: single segment, 2-byte content size field that holds the size less 256.
    assert frame[4] == 0x60
    frame[5:7] = struct.pack("<H", len(CONTENT) + 1 - 256)
    with pytest.raises(ObjectCorrupt):
        decompress(bytes(frame), size_bytes=len(CONTENT) + 1, where="here")
    frame[5:7] = struct.pack("<H", len(CONTENT) - 1 - 256)
    with pytest.raises(ObjectCorrupt):
        decompress(bytes(frame), size_bytes=len(CONTENT) - 1, where="here")
