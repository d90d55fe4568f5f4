"""The host triple of this process, spelled as in a target."""

from __future__ import annotations

import os
import sys


def host_triple() -> str:
    """``x86_64-linux-gnu`` and the like; another C library or system gives a triple that no target has."""
    machine = os.uname().machine
    if sys.platform != "linux":
        return f"{machine}-{sys.platform}"
    return f"{machine}-linux-{'gnu' if _is_glibc() else _other_c_library()}"


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (OSError, ValueError):  # a C library without this name, such as musl
        return False


def _other_c_library() -> str:
    """For the refusal's text: images on Alpine are common, and 'musl' is what their users look for."""
    import sysconfig

    return "musl" if "musl" in str(sysconfig.get_config_var("SOABI")) else "other"
