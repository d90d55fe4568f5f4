"""The CUDA driver, asked through ``libcuda.so.1`` alone: no torch, no toolkit, no context made.

Facts only; what they mean is decided in ``select``. Numbers of attributes are those of ``cuda.h`` and are part of the
driver's ABI, as are the names with ``_v2``.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

from kernelforge.errors import DeviceMismatch, KernelForgeError, RuntimeUnfit
from kernelforge.loader.found_device import FoundDevice

_RELEASE_FILE = Path("/proc/driver/nvidia/version")  # of the kernel's module; containers see the host's
_NO_DEVICE = 100
_NAME_BYTES = 256
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_ATTRIBUTES = {
    "num_sms": 16,
    "l2_bytes": 38,
    "shared_memory_per_sm_bytes": 81,
    "registers_per_sm": 82,
    "shared_memory_per_block_bytes": 97,
}


class Driver:
    """An initialised CUDA driver. Making one raises ``RuntimeUnfit`` with no driver, ``DeviceMismatch`` with no GPU."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise RuntimeUnfit(
                f"there is no NVIDIA driver on this machine: {error}",
                hint="run on a GPU machine, in a container with its driver mounted (--gpus, nvidia runtime class)",
            ) from error
        self.call("cuInit", ctypes.c_uint(0))

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of the driver; anything but success is a typed error with the driver's own name for it."""
        code = self.result(function, *arguments)
        if code != 0:
            raise self._error(function, code)

    def result(self, function: str, *arguments: Any) -> int:
        """Call a function of the driver and return its ``CUresult``, for callers to whom some errors are answers."""
        try:
            entry = getattr(self._library, function)
        except AttributeError as error:
            raise RuntimeUnfit(f"the driver has no {function}", hint="install a newer NVIDIA driver") from error
        return int(entry(*arguments))

    def device_count(self) -> int:
        """Number of devices that this process sees."""
        return self._number("cuDeviceGetCount")

    def cuda_version(self) -> tuple[int, int]:
        """The newest CUDA version that the driver supports: ``(13, 0)``."""
        version = self._number("cuDriverGetVersion")
        return version // 1000, version % 1000 // 10

    def current_ordinal(self) -> int:
        """Ordinal of the calling thread's current device; 0, CUDA's own default, where no context exists yet."""
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        if not context.value:
            return 0
        current = self._number("cuCtxGetDevice")
        return next(ordinal for ordinal in range(self.device_count()) if self.handle(ordinal) == current)

    def handle(self, ordinal: int) -> int:
        """The driver's ``CUdevice`` of an ordinal; ``DeviceMismatch`` if the process does not see that many."""
        count = self.device_count()
        if not 0 <= ordinal < count:
            raise DeviceMismatch(
                f"there is no device {ordinal}: this process sees {count}",
                hint="choose another device=, or check CUDA_VISIBLE_DEVICES",
            )
        return self._number("cuDeviceGet", ordinal)

    def attribute(self, number: int, ordinal: int) -> int:
        """A device attribute by its number in ``cuda.h``."""
        return self._attribute(number, self.handle(ordinal))

    def found_device(self, ordinal: int) -> FoundDevice:
        """All facts of one device."""
        handle = self.handle(ordinal)
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self.call("cuDeviceGetName", name, _NAME_BYTES, handle)
        memory = ctypes.c_size_t()
        self.call("cuDeviceTotalMem_v2", ctypes.byref(memory), handle)
        return FoundDevice(
            ordinal=ordinal,
            name=name.value.decode(),
            capability=(self._attribute(_CAPABILITY_MAJOR, handle), self._attribute(_CAPABILITY_MINOR, handle)),
            driver_cuda=self.cuda_version(),
            memory_bytes=memory.value,
            **{fact: self._attribute(number, handle) for fact, number in _ATTRIBUTES.items()},
        )

    def _attribute(self, number: int, handle: int) -> int:
        return self._number("cuDeviceGetAttribute", number, handle)

    def _number(self, function: str, *arguments: Any) -> int:
        """Result of a function whose first parameter is a pointer to an ``int`` that it fills in."""
        number = ctypes.c_int()
        self.call(function, ctypes.byref(number), *arguments)
        return number.value

    def _error(self, function: str, code: int) -> KernelForgeError:
        if code == _NO_DEVICE:
            return DeviceMismatch("the driver sees no GPU", hint="check nvidia-smi and CUDA_VISIBLE_DEVICES")
        name = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(name))
        return RuntimeUnfit(
            f"{function} failed with {(name.value or b'an unknown error').decode()} ({code})",
            hint="check nvidia-smi; a process that was forked after CUDA was used cannot use it",
        )


def driver_release(file: Path = _RELEASE_FILE) -> str | None:
    """Release of the driver as its users know it, ``550.144.03``, for error messages; None where nothing tells it."""
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^NVRM version:.*?\s(\d{3,}\.\d+(?:\.\d+)?)\s", text, re.MULTILINE)
    return found[1] if found else None


def find_device(ordinal: int | None = None) -> FoundDevice:
    """Facts of the device with this ordinal, or of the calling thread's current device; makes no context.

    Raises ``RuntimeUnfit`` without a working driver, ``DeviceMismatch`` without that device.
    """
    driver = Driver()
    return driver.found_device(driver.current_ordinal() if ordinal is None else ordinal)
