"""The dynamic linker of this process: libraries made visible to all of it, and whether anybody has a symbol.

Asked through its own functions, bound at import: objects of ctypes for each library and symbol of a pack took 0.25 ms
more of a load. Knows no pack.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

# The interpreter itself, through which the linker finds by name alone what was opened for all to see. By index every
# function is an object of our own.
_everything = ctypes.pythonapi
_dlopen, _dlsym, _dlerror = _everything["dlopen"], _everything["dlsym"], _everything["dlerror"]
_dlopen.argtypes, _dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
_dlsym.argtypes, _dlsym.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_void_p
_dlerror.restype = ctypes.c_char_p


def open_for_all(library: str) -> str:
    """Make a library's symbols visible to the whole process, for good; what went wrong, or nothing."""
    if _dlopen(library.encode(), os.RTLD_NOW | os.RTLD_GLOBAL):
        return ""
    return (_dlerror() or b"no reason is given").decode(errors="replace")


def absent(symbols: Iterable[str]) -> list[str]:
    """The symbols that nobody has."""
    return [symbol for symbol in symbols if not _dlsym(None, symbol.encode())]


def number_from(function: str) -> int | None:
    """What a function writes to the address of an ``int``, its only argument; None if nobody has the function."""
    if absent([function]):
        return None
    number = ctypes.c_int()
    _everything[function](ctypes.byref(number))
    return number.value
