"""A lockfile's entries in the text that ``Lockfile.to_bytes`` writes, told apart without reading them.

Reading 1,000 entries takes 40 ms, opening their pack and looking up every symbol 2 ms; and for that a pod needs two
names of each entry, which takes 1 ms from the text. Every member has a line of its own, indented by its depth, and a
line break inside a string is written as an escape, so the start of a line says at which depth its member is. Knows no
types: whoever makes a ``DeferredEntries`` says how the entries are read.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

EntryT = TypeVar("EntryT")

_START = b'\n "entries": [\n  {'
_END = b"\n  }\n ],\n"
# Two lines of each entry, found in one pass: members are sorted, so 'kernel' comes right after 'devices'.
_KERNEL = b'],\n   "kernel": "'
_SYMBOL = b'symbol": "'
_LINES = re.compile(rb'\n   "(devices": \[[^\]]*%b[^"]*|%b[^"]*)"' % (re.escape(_KERNEL), _SYMBOL))


@dataclass(frozen=True)
class SplitText:
    """``rest``: the document with an empty list of entries. The entries are ``data[start:end]``."""

    rest: bytes
    data: bytes
    start: int
    end: int

    @classmethod
    def of(cls, data: bytes) -> SplitText | None:
        """None for text with another layout, or with escapes, which only a parser can read."""
        # From the back: what follows the entries is short, and no list of objects is in it.
        start, end = data.find(_START), data.rfind(_END)
        if not 0 <= start < end or data.find(b"\\", start, end) >= 0:
            return None
        rest = data[:start] + b'\n "entries": [],\n' + data[end + len(_END) :]
        return cls(rest, data, start, end)

    def kernels_by_symbol(self, device: str) -> dict[str, str] | None:
        """Symbol -> kernel of the entries whose devices include this one; None for entries with another layout."""
        found = _LINES.findall(self.data, self.start, self.end)
        heads, symbols = found[::2], found[1::2]
        is_paired = len(heads) == len(symbols) and all(map(bytes.startswith, symbols, itertools.repeat(_SYMBOL)))
        line, kernels = b"\n    " + json.dumps(device).encode(), {}
        for head in set(heads):  # few, because most entries have their kernel and devices in common
            devices, _, kernel = head.partition(_KERNEL)
            is_paired = is_paired and bool(kernel)
            if line in devices:
                kernels[head] = kernel.decode()
        if not is_paired:
            return None
        cut = len(_SYMBOL)
        pairs = zip(heads, symbols, strict=True)
        return {symbol[cut:].decode(): kernels[head] for head, symbol in pairs if head in kernels}


class DeferredEntries(Sequence[EntryT]):
    """The entries of a lockfile, read and checked all at once when the first of them is asked for."""

    def __init__(self, text: SplitText, read: Callable[[], tuple[EntryT, ...]]) -> None:
        self._text = text
        self._read = read
        self._entries: tuple[EntryT, ...] | None = None

    @overload
    def __getitem__(self, index: int) -> EntryT: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[EntryT, ...]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def __iter__(self) -> Iterator[EntryT]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def kernels_by_symbol(self, device: str) -> dict[str, str] | None:
        """As ``SplitText.kernels_by_symbol``: reads no entry."""
        return self._text.kernels_by_symbol(device)

    def _all(self) -> tuple[EntryT, ...]:
        if self._entries is None:
            self._entries = self._read()
        return self._entries
