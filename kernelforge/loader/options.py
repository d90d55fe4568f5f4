"""The loader's settings, and the only place of the loader that reads the environment.

An explicit argument wins over a variable, ours over the shared ones. Variables of other systems (``TRITON_CACHE_DIR``,
``VLLM_CACHE_ROOT`` and the like) mean their caches, never ours.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """``cache_folder`` is where packs are kept, None for nowhere; ``cache_setting`` is what chose it, for messages.

    ``mounts`` are the folders of packs that are only read, in the order in which they are asked.
    """

    cache_folder: Path | None
    cache_setting: str
    mounts: tuple[Path, ...] = ()

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        *,
        cache: str | os.PathLike[str] | None = None,
        mounts: Sequence[str | os.PathLike[str]] | None = None,
    ) -> Options:
        """Settings for one load; touches no file.

        Cache: ``cache``, ``KERNELFORGE_CACHE``, ``XDG_CACHE_HOME``/kernelforge, ``HOME``/.cache/kernelforge, none. A
        relative ``XDG_CACHE_HOME`` or ``HOME`` is passed over: it would mean another folder in every working directory.
        Mounts: ``mounts``, else ``KERNELFORGE_MOUNTS`` (folders separated like those of ``PATH``). Empty variables
        count as unset.
        """
        folder, setting = _cache(environ, cache)
        if mounts is None:
            mounts = [mount for mount in environ.get("KERNELFORGE_MOUNTS", "").split(os.pathsep) if mount]
        return cls(folder, setting, tuple(Path(mount).absolute() for mount in mounts))


def _cache(environ: Mapping[str, str], cache: str | os.PathLike[str] | None) -> tuple[Path | None, str]:
    if cache is not None:
        return Path(cache).absolute(), "cache="
    if environ.get("KERNELFORGE_CACHE"):
        return Path(environ["KERNELFORGE_CACHE"]).absolute(), "KERNELFORGE_CACHE"
    for variable, below in (("XDG_CACHE_HOME", "kernelforge"), ("HOME", ".cache/kernelforge")):
        if os.path.isabs(environ.get(variable, "")):
            return Path(environ[variable], below), variable
    return None, "no cache=, KERNELFORGE_CACHE, XDG_CACHE_HOME or HOME"
