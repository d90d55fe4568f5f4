"""The loader's settings, and the only place of the loader that reads the environment.

An explicit argument wins over a variable, ours over the shared ones. Variables of other systems (``TRITON_CACHE_DIR``,
``VLLM_CACHE_ROOT`` and the like) mean their caches, never ours.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """``cache_folder`` is where packs are kept, None for nowhere; ``cache_setting`` is what chose it, for messages."""

    cache_folder: Path | None
    cache_setting: str

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, cache: str | os.PathLike[str] | None = None) -> Options:
        """Order: ``cache``, ``KERNELFORGE_CACHE``, ``XDG_CACHE_HOME``/kernelforge, ``HOME``/.cache/kernelforge, none.

        Empty variables count as unset. A relative ``XDG_CACHE_HOME`` or ``HOME`` is passed over: it would mean
        another folder in every working directory. Touches no file.
        """
        if cache is not None:
            return cls(Path(cache).absolute(), "cache=")
        if environ.get("KERNELFORGE_CACHE"):
            return cls(Path(environ["KERNELFORGE_CACHE"]).absolute(), "KERNELFORGE_CACHE")
        for variable, below in (("XDG_CACHE_HOME", "kernelforge"), ("HOME", ".cache/kernelforge")):
            if os.path.isabs(environ.get(variable, "")):
                return cls(Path(environ[variable], below), variable)
        return cls(None, "no cache=, KERNELFORGE_CACHE, XDG_CACHE_HOME or HOME")
