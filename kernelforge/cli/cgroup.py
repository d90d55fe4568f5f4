"""What a container may use of its machine: CPU and memory limits of Linux control groups, versions 1 and 2.

``os.cpu_count`` and MemTotal are the machine's, also in a container that may use a tenth of it. Limits are read from
files alone, and a file that is absent or odd sets none: a wrong guess costs speed, an error would cost the build. Knows
nothing of what the limits are for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

logger = logging.getLogger(__name__)

_MEMBERSHIP = "proc/self/cgroup"
_MOUNT = "sys/fs/cgroup"
# Version 1 writes "no memory limit" as the largest page-aligned number, 2^63 - 4096 with small pages.
_NO_MEMORY_LIMIT_BYTES = 1 << 60


def cpu_limit(root: Path = Path("/")) -> int | None:
    """Cores that a quota allows, rounded up; ``None`` without a quota. ``root``: where proc and sys are mounted."""
    quotas = [_quota(_words(folder / "cpu.max")) for folder in _folders(root)]
    for folder in _folders(root, "cpu"):
        quotas.append(_quota(_words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")))
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes that all processes of the container may use together; ``None`` without a limit."""
    files = [folder / "memory.max" for folder in _folders(root)]
    files += [folder / "memory.limit_in_bytes" for folder in _folders(root, "memory")]
    limits = [_number(word) for file in files for word in _words(file)[:1]]
    return min((limit for limit in limits if limit is not None and limit < _NO_MEMORY_LIMIT_BYTES), default=None)


def _folders(root: Path, controller: str = "") -> Iterator[Path]:
    """Folders whose limits hold for this process, its own group's first; no controller means version 2.

    A group is bound by its ancestors' limits as well, and its own files may not be seen from here: without a cgroup
    namespace a container reads the host's path, and its group is the top of what is mounted.
    """
    for controllers, path in _memberships(root / _MEMBERSHIP):
        if controller not in controllers.split(","):
            continue
        # A path through ".." leads out of the cgroup namespace: only the top is seen from here.
        parts = PurePosixPath(path.lstrip("/")).parts if ".." not in path.split("/") else ()
        for mount in _mounts(root / _MOUNT, controllers, controller):
            for length in range(len(parts), -1, -1):
                yield mount.joinpath(*parts[:length])


def _mounts(mount: Path, controllers: str, controller: str) -> tuple[Path, ...]:
    """Where a hierarchy can be mounted: beside version 1, version 2 is in a folder of its own, without limits of ours.

    Version 1 has a folder for each set of controllers (``cpu,cpuacct``), and mostly a link for each one (``cpu``).
    """
    if not controller:
        return (mount,)
    return tuple(mount / name for name in dict.fromkeys((controllers, controller)))


def _memberships(file: Path) -> Iterator[tuple[str, str]]:
    """``(controllers, path)`` of each hierarchy; version 2's line is ``0::/path``."""
    for line in _text(file).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield parts[1], parts[2]
        elif line:
            logger.debug("%s: %r is no line of a control group", file, line)


def _quota(words: list[str]) -> int | None:
    """Cores of ``[quota, period]``, both in microseconds; ``max`` or a negative quota is none."""
    if len(words) != 2:
        return None
    quota, period = (_number(word) for word in words)
    return None if quota is None or period is None else -(-quota // period)


def _number(word: str) -> int | None:
    """A positive number; ``max``, -1 and what is no number limit nothing."""
    try:
        number = int(word)
    except ValueError:
        if word != "max":
            logger.debug("%.40r is no limit", word)
        return None
    return number if number > 0 else None


def _words(file: Path) -> list[str]:
    return _text(file).split()


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except FileNotFoundError:  # the usual case: groups at the top, and all of the other version's, have no such file
        return ""
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        logger.debug("%s cannot be read: %s", file, error)
        return ""
