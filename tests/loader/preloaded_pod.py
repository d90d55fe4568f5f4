"""A pod without a GPU for one process: a driver that has no card, a CUDA runtime that only records, and a real pack.

Import it in a process of its own (``LD_LIBRARY_PATH`` has the driver) whose first argument is the folder of the pack:
the libraries stay, and a pack's device code is loaded once in a process.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

sys.modules["torch"] = None  # type: ignore[assignment]  # tvm_ffi would import it for 3 s, and nothing here needs it

from kernelforge import KernelSet, LocalFile  # noqa: E402
from kernelforge import load as kernelforge_load  # noqa: E402
from kernelforge.errors import KernelForgeError  # noqa: E402
from kernelforge.lockfile import Lockfile  # noqa: E402
from tests.kernels.recorded_launch import DLTensor  # noqa: E402
from tests.loader.fake_release import H200  # noqa: E402

FOLDER = Path(sys.argv[1])
# The driver first, for everybody to see: the recording runtime asks it for the current device.
driver = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
runtime = ctypes.CDLL(str(FOLDER / "libcudart.so.13"), ctypes.RTLD_GLOBAL)

_CUDA, _FLOAT, _TENSOR = 2, 2, 7


class _Argument(ctypes.Structure):
    _fields_ = (("type_index", ctypes.c_int64), ("address", ctypes.c_void_p))


def load(**options: Any) -> KernelSet:
    """``kernelforge.load`` of the pack, on device 0."""
    device = dataclasses.replace(H200, ordinal=0)
    defaults: dict[str, Any] = {"trust": LocalFile(), "pack": FOLDER / "pack.so", "device": device}
    return kernelforge_load(FOLDER / "x.lock.json", **{**defaults, **options})


def launch_all(device: int) -> list[int]:
    """Call every entry of the opened pack with tensors of this device; where each launch went."""
    pack = ctypes.CDLL(str(FOLDER / "pack.so"))
    lock = Lockfile.parse((FOLDER / "x.lock.json").read_bytes(), where="lock")
    devices = []
    for entry in lock.entries:
        numbers = ctypes.c_int64 * 2
        shape, strides = numbers(4, 32), numbers(32, 1)
        tensors = [DLTensor(address, _CUDA, device, 2, _FLOAT, 32, 1, shape, strides, 0) for address in (4096, 8192)]
        arguments = (_Argument * 2)(*(_Argument(_TENSOR, ctypes.addressof(tensor)) for tensor in tensors))
        before = number("launches")
        status = pack[f"__tvm_ffi_{entry.symbol}"](None, arguments, 2, ctypes.byref(_Argument(0, None)))
        assert status == 0, f"{entry.symbol} refused"
        assert number("launches") == before + 1
        devices.append(number("launch_device"))
    return devices


def number(name: str) -> int:
    """One of the recorder's numbers."""
    return ctypes.c_int.in_dll(runtime, f"recorded_{name}").value


def set_number(name: str, value: int) -> None:
    """Set what the recording runtime pretends."""
    ctypes.c_int.in_dll(runtime, f"recorded_{name}").value = value


def state() -> dict[str, Any]:
    """What was loaded where, launched, and which device is current."""
    current = ctypes.c_int(-1)
    runtime.cudaGetDevice(ctypes.byref(current))
    per_device = ctypes.c_int * 8
    return {
        "images": number("libraries"),
        "on_device": list(per_device.in_dll(runtime, "recorded_lazy_loads"))[:2],
        "prepared": list(per_device.in_dll(runtime, "recorded_prepared"))[:2],
        "launches": number("launches"),
        "current": current.value,
        "contexts": driver.fake_driver_leftovers() // 100,
        "retained": driver.fake_driver_leftovers() // 10 % 10,
        "set_device_calls": number("set_device_calls"),
    }


def attempt(**options: Any) -> list[str]:
    """Kind and text of the error that a load raises."""
    try:
        load(**options)
    except KernelForgeError as error:
        return [type(error).__name__, str(error)]
    return ["no error", ""]


def answer(**values: Any) -> None:
    """Hand values to the test."""
    sys.stdout.write(json.dumps(values))
