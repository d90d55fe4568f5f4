"""The host triple of this process, spelled as in a target."""

from __future__ import annotations

import os
import sys


def host_triple() -> str:
    """``x86_64-linux-gnu`` and the like; another C library or system gives a triple that no target has."""
    machine = os.uname().machine
    if sys.platform != "linux":
        return f"{machine}-{sys.platform}"
    return f"{machine}-linux-{'gnu' if _is_glibc() else 'other'}"


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (OSError, ValueError):  # a C library without this name, such as musl
        return False
