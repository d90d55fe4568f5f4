"""How many thread block clusters a card holds at once: the one fact of a device profile that only a card can tell.

The number of SMs divided by the cluster size is wrong from size 4 on (an H200 holds 30 clusters of 4 on 132 SMs), since
clusters live inside one GPC and GPCs differ. Asked through the driver with an empty kernel that claims all shared
memory. Not part of a load: this makes a context and lets the driver compile PTX.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

from kernelforge.loader.driver import Driver

CLUSTER_SIZES = (1, 2, 4, 8, 16)

_CLUSTER_LAUNCH = 120  # device attribute: has this card clusters at all?
_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # function attributes
_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
_CLUSTER_DIMENSION = 4  # launch attribute
_INVALID_CLUSTER_SIZE = 912  # CUresult
_BLOCK_THREADS = 128
_KERNEL = b"kernelforge_occupancy_probe"
_PTX = b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry " + _KERNEL + b"()\n{\n\tret;\n}\n\0"


class _ClusterDimension(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class _LaunchAttributeValue(ctypes.Union):
    _fields_ = (("pad", ctypes.c_char * 64), ("clusterDim", _ClusterDimension))


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", _LaunchAttributeValue))


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("gridDimX", ctypes.c_uint),
        ("gridDimY", ctypes.c_uint),
        ("gridDimZ", ctypes.c_uint),
        ("blockDimX", ctypes.c_uint),
        ("blockDimY", ctypes.c_uint),
        ("blockDimZ", ctypes.c_uint),
        ("sharedMemBytes", ctypes.c_uint),
        ("hStream", ctypes.c_void_p),
        ("attrs", ctypes.POINTER(_LaunchAttribute)),
        ("numAttrs", ctypes.c_uint),
    )


def max_active_clusters(ordinal: int = 0) -> dict[int, int]:
    """Cluster size -> clusters resident at once, each block using all the shared memory that it can opt in to.

    0 means that the card cannot run such a cluster; empty on cards without clusters. The calling thread's current
    context is the same afterwards.
    """
    driver = Driver()
    if not driver.attribute(_CLUSTER_LAUNCH, ordinal):
        return {}
    shared_memory_bytes = driver.attribute(_SHARED_MEMORY_PER_BLOCK_OPTIN, ordinal)
    with _primary_context(driver, ordinal), _probe(driver) as function:
        for attribute, value in (
            (_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_memory_bytes),
            (_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
        ):
            driver.call("cuFuncSetAttribute", function, attribute, value)
        return {size: _active_clusters(driver, function, size, shared_memory_bytes) for size in CLUSTER_SIZES}


def _active_clusters(driver: Driver, function: ctypes.c_void_p, size: int, shared_memory_bytes: int) -> int:
    attribute = _LaunchAttribute(id=_CLUSTER_DIMENSION)
    attribute.value.clusterDim = _ClusterDimension(size, 1, 1)
    config = _LaunchConfig(
        gridDimX=size,
        gridDimY=1,
        gridDimZ=1,
        blockDimX=_BLOCK_THREADS,
        blockDimY=1,
        blockDimZ=1,
        sharedMemBytes=shared_memory_bytes,
        attrs=ctypes.pointer(attribute),
        numAttrs=1,
    )
    clusters = ctypes.c_int()
    arguments = (ctypes.byref(clusters), function, ctypes.byref(config))
    if driver.result("cuOccupancyMaxActiveClusters", *arguments) == _INVALID_CLUSTER_SIZE:
        return 0
    driver.call("cuOccupancyMaxActiveClusters", *arguments)
    return clusters.value


@contextlib.contextmanager
def _primary_context(driver: Driver, ordinal: int) -> Iterator[None]:
    """The device's primary context (the one that torch uses too) as the current one, for the length of a block."""
    handle = driver.handle(ordinal)
    context = ctypes.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    try:
        driver.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
    finally:
        driver.call("cuDevicePrimaryCtxRelease_v2", handle)


@contextlib.contextmanager
def _probe(driver: Driver) -> Iterator[ctypes.c_void_p]:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_PTX))
    try:
        driver.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(_KERNEL))
        yield function
    finally:
        driver.call("cuModuleUnload", module)
