"""Device code on the card before ``load`` returns, so that the first request loads nothing.

CUDA loads a kernel's image at its first launch on each device. A pack's ``kf_preload`` does it without a launch, for
all kernels, on the current device; here is decided which devices these are, and each is made current for the time of
the call with the driver's stack of contexts. The CUDA runtime's own way, setting the device and setting it back, would
make a context on device 0 in a thread that had none, and so take memory there for each process that uses another one.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from kernelforge.errors import RuntimeUnfit, UsageError
from kernelforge.loader.driver import Driver, find_device
from kernelforge.loader.found_device import FoundDevice
from kernelforge.loader.host import host_triple
from kernelforge.loader.select import select_profile
from kernelforge.lockfile import Lockfile

_log = logging.getLogger(__name__)

# Named by the builder too (`builder.preload_code`), which a pod does not have.
_ENTRY = "kf_preload"


def devices_to_preload(
    preload: bool | Sequence[int], found: FoundDevice, lock: Lockfile, profile: str
) -> tuple[int, ...]:
    """Ordinals that ``preload`` means: ``found``'s for True, none for False, else those given, each once.

    Every one of them must be a device that the profile fits, as ``found`` does. Raises ``DeviceMismatch`` where one
    does not or is not there, ``UsageError`` for what is no list of ordinals.
    """
    if isinstance(preload, bool):
        return (found.ordinal,) if preload else ()
    if not isinstance(preload, Sequence) or any(type(ordinal) is not int for ordinal in preload):
        raise UsageError(f"preload={preload!r} names no devices", hint="True, or CUDA ordinals: preload=[0, 1]")
    ordinals = tuple(dict.fromkeys(preload))
    for ordinal in ordinals:
        if ordinal != found.ordinal:
            select_profile(lock, find_device(ordinal), host=host_triple(), only=profile)
    return ordinals


def preload_pack(module: Any, ordinals: Sequence[int]) -> None:
    """Load the device code of all kernels of an opened pack onto each of these devices.

    The calling thread's current context is the same afterwards, also where it has none; each device's primary context
    (the one that torch uses too) stays up for the life of the process. Raises ``RuntimeUnfit`` with CUDA's name for
    what failed.
    """
    try:
        load_all = module.get_function(_ENTRY)
    except AttributeError as error:
        raise RuntimeUnfit(
            "the pack cannot be preloaded: it was linked by a kernelforge that did not know how",
            hint="build again with this version, or load without preload=",
        ) from error
    driver = Driver()
    for ordinal in ordinals:
        with _current_device(driver, ordinal):
            kernels = _preload(load_all, ordinal)
        _log.debug("preloaded %d kernels on device %d", kernels, ordinal)


def _preload(load_all: Any, ordinal: int) -> int:
    try:
        return int(load_all(ordinal))
    except RuntimeError as error:
        raise RuntimeUnfit(
            f"the kernels cannot be loaded onto device {ordinal}: {error}",
            hint="check nvidia-smi: is there memory left on the device, is it healthy?",
        ) from error


@contextlib.contextmanager
def _current_device(driver: Driver, ordinal: int) -> Iterator[None]:
    """The device's primary context as the current one, for the length of a block.

    It is retained for good: with the last one to let go of it, the code that was loaded would go too.
    """
    context = ctypes.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), driver.handle(ordinal))
    driver.call("cuCtxPushCurrent_v2", context)
    try:
        yield
    finally:
        driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
