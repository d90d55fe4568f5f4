"""Reads one small text file, whatever lies under its path: every fault becomes a problem, none an exception.

Knows neither YAML nor JSON.
"""

from __future__ import annotations

import stat
from pathlib import Path

from kernelforge.manifest.problems import Place, Problems, did_you_mean


def read_text(path: Path, problems: Problems, *, limit_bytes: int, named_at: Place | None = None) -> str | None:
    """The file's text without a byte order mark, or None after adding a problem.

    What is wrong with the path is reported where the path was written (``named_at``), what is wrong inside the file in
    the file's own line. At most ``limit_bytes`` are read.
    """
    here = named_at or Place(str(path), 1)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            # A named pipe or a terminal would block for ever.
            kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            problems.add(here, f"{path} is {kind}", hint="give the path of a text file")
            return None
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        problems.add(here, f"{path} does not exist", hint=_nearest_file(path))
        return None
    except PermissionError:
        problems.add(here, f"{path} may not be read by this user", hint="change its permissions or its owner")
        return None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        problems.add(here, f"{path} cannot be read: {error}", hint="give the path of a text file")
        return None
    return _decoded(data, path, problems, limit_bytes)


def _decoded(data: bytes, path: Path, problems: Problems, limit_bytes: int) -> str | None:
    first_line = Place(str(path), 1)
    if len(data) > limit_bytes:
        problems.add(
            first_line, f"the file is larger than {limit_bytes:,} bytes", hint="is it the file that you meant?"
        )
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = Place(str(path), data.count(b"\n", 0, error.start) + 1)
        problems.add(place, f"the file is not UTF-8 text (byte {error.start})", hint="save it as UTF-8")
        return None
    if not text.strip():
        problems.add(first_line, "the file is empty", hint="see specs/README.md for what belongs in it")
        return None
    return text


def _nearest_file(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"the folder {path.parent} cannot be listed either"
    near = did_you_mean(path.name, names)
    return (
        near
        if near.startswith("did you mean")
        else f"paths are relative to the file that names them; tried {path.parent}"
    )
