"""Small files that other processes read while they are replaced: all of the old bytes or all of the new ones."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write ``data`` under another name beside ``path`` and rename it; the folder is made with mode 700 if need be."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".unfinished-{os.urandom(8).hex()}")
    try:
        with open(unfinished, "xb") as file:
            file.write(data)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
