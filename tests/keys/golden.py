"""Golden vectors of key digests: made from the fake family and a fixed toolchain, kept in `golden.json`.

`python -m tests.keys.golden` writes the file anew. That is right only together with a raised KEY_SCHEMA_VERSION (or
CONTRACT_VERSION): otherwise every object in every store would be lost in silence.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kernelforge.contract import IntRange, symbol_of
from kernelforge.device import DeviceProfile
from kernelforge.fingerprint import device_fingerprint
from kernelforge.keys.enumerate import enumerate_keys, import_kernel
from kernelforge.keys.key_digest import KEY_SCHEMA_VERSION, KeyPreimage
from kernelforge.keys.toolchain import Toolchain
from kernelforge.request import KernelRequest
from kernelforge.target import Target

FAMILY = Path(__file__).with_name("fakekernels")
FILE = Path(__file__).with_name("golden.json")
KERNEL = "fakekernels.scale:Scale"
PROFILE = DeviceProfile("h200-sxm", "sm_90a", {})
TOOLCHAIN = Toolchain(
    "cu13",
    {
        "nvidia-cutlass-dsl": "4.8.1",
        "nvidia-cutlass-dsl-libs-base": "4.8.1",
        "nvidia-cutlass-dsl-libs-cu13": "4.8.1",
        "apache-tvm-ffi": "0.1.15",
    },
)
TARGETS = (Target("sm_90a"), Target("sm_100a"), Target("sm_90a", cuda="cu12"))


def preimages(max_tokens: int = 9) -> list[tuple[Any, KeyPreimage]]:
    """Compile keys of the family and their preimages, for every target."""
    request = KernelRequest(KERNEL, {"tokens": IntRange(1, max_tokens)})
    source = device_fingerprint(KERNEL)
    options = import_kernel(KERNEL).compile_options
    return [
        (
            key,
            KeyPreimage.of(
                kernel=KERNEL,
                compile_key=key,
                target=target,
                source=source,
                compile_options=options,
                toolchain=TOOLCHAIN,
            ),
        )
        for target in TARGETS
        for key in enumerate_keys(request, PROFILE).keys
    ]


def vectors() -> dict[str, Any]:
    """What the golden file must hold."""
    entries = [
        {
            "compile_key": preimage.to_json()["compile_key"],
            "target": str(preimage.target),
            "key_digest": str(preimage.digest()),
            "symbol": symbol_of(KERNEL, key),
        }
        for key, preimage in preimages()
    ]
    return {"schema": KEY_SCHEMA_VERSION, "source": str(device_fingerprint(KERNEL).digest), "entries": entries}


if __name__ == "__main__":
    sys.path.insert(0, str(FAMILY.parent))
    FILE.write_text(json.dumps(vectors(), indent=2) + "\n")
