"""One rank of a job, as a program: ready, wait for the others, load, tell what happened.

Arguments: the lockfile, the cache folder, a folder that holds the store and the files ``ready-*``, ``go`` and ``gets``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from kernelforge.store.file import FileStore

FETCH_S = 0.5


class CountingStore(FileStore):
    """Notes every read of every process in one file, and takes its time like a store far away."""

    def __init__(self, root: Path, notes: Path) -> None:
        super().__init__(root)
        self._notes = notes

    def get(self, name: str, *, limit_bytes: int) -> bytes:
        with open(self._notes, "a") as notes:
            notes.write(f"{os.getpid()} {name}\n")
        time.sleep(FETCH_S)
        return super().get(name, limit_bytes=limit_bytes)


def main() -> None:
    lock, cache, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    sys.modules["torch"] = None  # type: ignore[assignment]
    import tvm_ffi  # noqa: F401 (takes longer than the load: all ranks have it before any starts)

    from kernelforge import LocalFile, load
    from tests.loader.fake_release import H200, KEYS

    store = CountingStore(folder / "store", folder / "gets")
    (folder / f"ready-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.005)
    kernels = load(lock, trust=LocalFile(), device=H200, cache=cache, store=store)
    stats = kernels.stats()
    outcome = {
        "results": [kernels[key](1) for key in KEYS],
        "source": stats.pack_source,
        "downloads": stats.counters.get("downloads", 0),
        "waited": stats.counters.get("waited", 0),
        "decision": str(kernels.decision),
    }
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main()
