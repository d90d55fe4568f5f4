"""kernelforge builds CuTeDSL kernels in CI and loads them in serving pods with no compiler.

``kernelforge.load`` is the one function that a pod calls. Names are resolved on first use, so that importing the
package costs nothing and touches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelforge.loader.kernel_set import KernelSet
    from kernelforge.loader.load import load
    from kernelforge.loader.source import Bundle, Channel, FromStore
    from kernelforge.loader.trust import LocalFile, PinnedDigest, TrustedKeys

__version__ = "0.1.0"
__all__ = [
    "Bundle",
    "Channel",
    "FromStore",
    "KernelSet",
    "LocalFile",
    "PinnedDigest",
    "TrustedKeys",
    "__version__",
    "load",
]

_HOMES = {
    "Bundle": "kernelforge.loader.source",
    "Channel": "kernelforge.loader.source",
    "FromStore": "kernelforge.loader.source",
    "KernelSet": "kernelforge.loader.kernel_set",
    "LocalFile": "kernelforge.loader.trust",
    "PinnedDigest": "kernelforge.loader.trust",
    "TrustedKeys": "kernelforge.loader.trust",
    "load": "kernelforge.loader.load",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernelforge' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
