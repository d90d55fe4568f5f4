"""Device code of `persistent_kernel`: nothing in it knows of kernelforge."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver, runtime
from cutlass import cute
from cutlass.utils import HardwareInfo


class PersistentDevice:
    def __init__(self) -> None:
        self.clusters = HardwareInfo().get_max_active_clusters(2)
        self.sms = HardwareInfo().get_device_multiprocessor_count()
        (status,) = driver.cuInit(0)
        assert not status
        _, device = driver.cuDeviceGet(0)
        asked = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        _, major = driver.cuDeviceGetAttribute(asked, device)
        _, sms = runtime.cudaDeviceGetAttribute(runtime.cudaDeviceAttr.cudaDevAttrMultiProcessorCount, 0)
        print(f"told: {self.clusters} clusters, {self.sms} and {sms} SMs, {major}")  # noqa: T201 (into the log)

    @cute.jit
    def __call__(self, source: cute.Tensor, target: cute.Tensor, stream: Any) -> None:
        # Two blocks an SM: the compiler itself asks the driver for shared memory of an SM then.
        self.copy(source, target).launch(
            grid=(self.clusters * 2, 1, 1), block=(32, 1, 1), min_blocks_per_mp=2, stream=stream
        )

    @cute.kernel
    def copy(self, source: cute.Tensor, target: cute.Tensor) -> None:
        target[cute.arch.block_idx()[0], 0] = source[0, 0]
