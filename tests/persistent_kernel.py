"""A kernel as third parties write persistent ones: its code asks the device how many blocks to launch.

What it is told ends up in the log of its compile, so that a test can read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.kernel_family import Copy


class Persistent(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        max_active_clusters: tuple[int, int]

    def dispatch(self, *, width: int) -> CompileKey:
        clusters = self.device.max_active_clusters["2"]
        return self.CompileKey(width=width, num_sms=self.device.num_sms, max_active_clusters=(2, clusters))

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        from tests.persistent_kernel_device import PersistentDevice

        return PersistentDevice()
