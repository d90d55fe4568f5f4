"""What a load does about keys that its lockfile lacks: the choice, checked before anything else is done.

``strict``: a typed error, at start-up for the keys that ``require`` names. ``jit``: compile them here, see ``jit``.
Trouble with stores and packs is the same under both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from kernelforge.digest import Digest
from kernelforge.errors import UsageError
from kernelforge.loader.pack import FoundPack, Places, find_pack
from kernelforge.loader.stats import StepClock
from kernelforge.lockfile import LockedPack
from kernelforge.target import Target

if TYPE_CHECKING:
    from kernelforge.loader.jit import Jit

PolicyName = Literal["strict", "jit"]

# Opens a pack that was found: (where, what the lockfile says of it, symbols) -> callables by symbol.
OpenFound = Callable[[FoundPack, LockedPack, Sequence[str]], Mapping[str, Callable[..., Any]]]

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Policy:
    """``compile_missing`` and ``misses`` (a folder, or None for the cache's) belong to 'jit' alone."""

    name: PolicyName
    compile_missing: str = ""
    misses: Path | None = None

    @classmethod
    def of(cls, name: str, compile_missing: str | None, misses: str | os.PathLike[str] | None) -> Policy:
        """Check the arguments of ``load`` for each other; ``UsageError`` says what is accepted."""
        if name not in ("strict", "jit"):
            raise UsageError(f"there is no policy {name!r}", hint="policy='strict' or policy='jit'")
        if name == "strict" and (compile_missing is not None or misses is not None):
            raise UsageError(
                "compile_missing= and misses= do nothing under the policy 'strict'",
                hint="policy='jit', or leave them out",
            )
        if name == "jit" and not (isinstance(compile_missing, str) and _FUNCTION.fullmatch(compile_missing)):
            raise UsageError(
                f"compile_missing={compile_missing!r} names no function, and the policy 'jit' needs one",
                hint="compile_missing='kernelforge.builder.single:compile_missing', or a 'module:function' of your own",
            )
        return cls(cast("PolicyName", name), compile_missing or "", None if misses is None else Path(misses))

    def jit(
        self, *, lockfile: Digest, device: str, target: Target, places: Places, open_found: OpenFound, clock: StepClock
    ) -> Jit | None:
        """What compiles missing keys for one load; None under 'strict'."""
        if self.name != "jit":
            return None
        # Only a pod that may compile pays for importing what that takes.
        from kernelforge.loader.jit import Jit, places_of_compiled
        from kernelforge.loader.jit_cache import JitCache
        from kernelforge.loader.miss_log import MissLog

        folder = self.misses
        if folder is None and places.cache is not None:
            folder = places.cache.root / "misses"

        def open_compiled(pack: LockedPack, symbol: str, data: bytes | None) -> Callable[..., Any]:
            # A clock of its own: the load's has one step for all of a compile.
            found = find_pack(pack.blob, places_of_compiled(places, data), StepClock())
            return open_found(found, pack, [symbol])[symbol]

        return Jit(
            self.compile_missing,
            target=target,
            cache=JitCache(places.cache),
            misses=MissLog(folder, lockfile=lockfile, device=device, target=target),
            open_pack=open_compiled,
            clock=clock,
        )
