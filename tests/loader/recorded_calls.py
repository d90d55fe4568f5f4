"""``python -m tests.loader.recorded_calls LOCKFILE STORE PROFILE``: make every call of the table, tell what came of it.

A process of its own, since a CUDA runtime that only records takes the place of the real one. Prints JSON: name of the
call -> [launches, type of the error, its text].
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from pathlib import Path

from kernelforge import KernelSet, LocalFile, load
from kernelforge.device import DeviceProfile
from kernelforge.lockfile import Lockfile
from kernelforge.store.blobs import get_blob
from kernelforge.store.file import FileStore
from kernelforge.target import compute_capability
from tests.kernels.recorded_launch import recording_runtime
from tests.loader.call_table import CALLS, Call
from tests.loader.fake_release import H200, FoundDevice


def main() -> None:
    sys.modules["torch"] = None  # type: ignore[assignment]  # tvm-ffi imports it, which takes seconds
    lockfile, store, name = Path(sys.argv[1]), FileStore(Path(sys.argv[2])), sys.argv[3]
    lock = Lockfile.parse(lockfile.read_bytes())
    pack = lock.packs[name]
    with tempfile.TemporaryDirectory() as folder:
        library = recording_runtime(get_blob(store, pack.blob), pack.target, Path(folder))
        recorder = ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
        kernels = load(lockfile, trust=LocalFile(), store=store, cache=Path(folder, "cache"), device=_card(lock, name))
        outcomes = {name: _outcome(call, kernels, recorder) for name, call in CALLS.items()}
        sys.stdout.write(json.dumps(outcomes))


def _outcome(call: Call, kernels: KernelSet, recorder: ctypes.CDLL) -> tuple[int, str, str]:
    launches = ctypes.c_int.in_dll(recorder, "recorded_launches")
    before, kind, text = launches.value, "", ""
    try:
        call.run(kernels)
    except Exception as error:  # noqa: BLE001 (whatever it is, the test judges it)
        kind, text = type(error).__name__, str(error)
    return launches.value - before, kind, text


def _card(lock: Lockfile, name: str) -> FoundDevice:
    """A card that is as the profile says."""
    profile: DeviceProfile = lock.devices[name]
    known = {fact: value.value for fact, value in profile.facts.items() if fact in FoundDevice.__dataclass_fields__}
    card = {**vars(H200), **known, "capability": compute_capability(profile.arch)}
    if "driver_names" in profile.facts:
        card["name"] = profile.driver_names[0]
    return FoundDevice(**card)


if __name__ == "__main__":
    main()
