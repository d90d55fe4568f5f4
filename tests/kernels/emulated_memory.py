"""Global memory for the PTX emulator: arrays at invented addresses, with the checks that a GPU does not make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass
class Memory:
    """An access must be aligned to its size and lie inside one array; how often each byte is stored is counted."""

    # Name -> (address, bytes, stores of each byte).
    _regions: dict[str, tuple[int, Array, Array]] = field(default_factory=dict)

    def place(self, name: str, data: Array) -> int:
        """Copy ``data`` in; its address divides by 512, as that of a fresh CUDA allocation."""
        address = (len(self._regions) + 1) << 36
        content = np.frombuffer(data.tobytes(), np.uint8).copy()
        self._regions[name] = (address, content, np.zeros(len(content), np.int64))
        return address

    def content(self, name: str, dtype: Any) -> Array:
        """The array as it is now, flat."""
        return self._regions[name][1].view(dtype)

    def store_counts(self, name: str) -> Array:
        """How often each byte was stored."""
        return self._regions[name][2]

    def load(self, addresses: Array, size: int) -> Array:
        """``size`` bytes at each address: ``[addresses, size]``."""
        result = np.empty((len(addresses), size), np.uint8)
        for content, _, chosen, offsets in self._split(addresses, size):
            result[chosen] = content[offsets]
        return result

    def store(self, addresses: Array, data: Array) -> None:
        """Inverse of ``load``."""
        for content, counts, chosen, offsets in self._split(addresses, data.shape[1]):
            content[offsets] = data[chosen]
            np.add.at(counts, offsets, 1)

    def _split(self, addresses: Array, size: int) -> list[tuple[Array, Array, Array, Array]]:
        assert not (addresses % size).any(), f"misaligned access of {size} bytes"
        parts = []
        found = np.zeros(len(addresses), bool)
        for address, content, counts in self._regions.values():
            chosen = (addresses >= address) & (addresses + size <= address + len(content))
            found |= chosen
            parts.append((content, counts, chosen, (addresses[chosen] - address)[:, None] + np.arange(size)))
        assert found.all(), f"access of {size} bytes outside every array"
        return parts
