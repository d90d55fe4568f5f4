"""What the CUDA driver says about one device, as a value.

Gathered by ``driver``, judged by ``select``; tests and tools make their own. Knows no driver.
"""

from __future__ import annotations

from dataclasses import dataclass

# The facts of a device profile that the driver can confirm; memory is not among them: vendors round it.
CONFIRMED_FACTS = (
    "num_sms",
    "shared_memory_per_block_bytes",
    "shared_memory_per_sm_bytes",
    "registers_per_sm",
    "l2_bytes",
)


@dataclass(frozen=True)
class FoundDevice:
    """One GPU as the driver of this machine reports it; facts have the names of ``device.FACTS``.

    ``ordinal`` counts the devices that the process sees, so ``CUDA_VISIBLE_DEVICES`` is honoured; ``driver_cuda`` is
    the newest CUDA version that the driver supports, ``(13, 0)``.
    """

    ordinal: int
    name: str
    capability: tuple[int, int]
    driver_cuda: tuple[int, int]
    num_sms: int
    shared_memory_per_block_bytes: int
    shared_memory_per_sm_bytes: int
    registers_per_sm: int
    l2_bytes: int
    memory_bytes: int

    def __str__(self) -> str:
        return f"device {self.ordinal}, {self.name!r} (sm_{self.capability[0]}{self.capability[1]}, {self.num_sms} SMs)"
