r"""A channel on a GPU: what is promoted and signed is loaded, called and right; what is not trusted is refused.

    python bench/channel_on_gpu.py --store LOCATION --key release.key.pub --foreign other.key.pub \
        --channel qwen3-8b/prod --lock sha256:...

Loads by channel, calls one kernel and compares it with float32 on the same inputs; then distrust, each kind in the
words of its error. Times of loads by pinned digest and by signature, taking turns in this process, are printed last.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import kernelforge
from kernelforge.errors import LockfileRolledBack, UntrustedLockfile
from kernelforge.kernels.rms_norm import RmsNorm

_LOADS = 15
_WIDTH = 4096


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--store", "--lock", "--key", "--foreign", "--channel"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__)
    channel = kernelforge.Channel(*arguments.channel.split("/"))
    trust = kernelforge.TrustedKeys([arguments.key])
    with tempfile.TemporaryDirectory() as folder:
        place: dict[str, Any] = {"store": arguments.store, "cache": Path(folder) / "cache"}
        kernels = kernelforge.load(channel, trust=trust, preload=True, **place)
        print(f"loaded {len(kernels)} kernels of {arguments.channel}, error over bound {worst_error(kernels):.3f}")
        refused(lambda: kernelforge.load(channel, trust=kernelforge.TrustedKeys([arguments.foreign]), **place))
        refused(
            lambda: kernelforge.load(
                channel, trust=kernelforge.TrustedKeys([arguments.key], minimum_serial=10), **place
            )
        )
        lock = kernelforge.FromStore(arguments.lock)
        times: dict[str, list[float]] = {"pinned": [], "signed": []}
        for _ in range(_LOADS):
            for way, how in (("pinned", kernelforge.PinnedDigest(lock.digest)), ("signed", trust)):
                start = time.perf_counter()
                kernelforge.load(lock, trust=how, **place)
                times[way].append((time.perf_counter() - start) * 1e3)
    medians = {way: statistics.median(taken) for way, taken in times.items()}
    print({way: f"{ms:.2f} ms" for way, ms in medians.items()}, f"ratio {medians['signed'] / medians['pinned']:.2f}")
    return 0


def worst_error(kernels: Any) -> float:
    """Largest error of RmsNorm over one rounding to bfloat16 (2^-8 relative), for three token counts."""
    norm, worst = RmsNorm(kernels), 0.0
    for tokens in (1, 77, 4096):
        x = torch.randn(tokens, _WIDTH, device="cuda", dtype=torch.bfloat16)
        weight = torch.randn(_WIDTH, device="cuda", dtype=torch.bfloat16)
        wide = x.float()
        expected = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight.float()
        out = torch.full_like(x, float("nan"))
        norm(x=x, weight=weight, out=out)
        bound = expected.abs() * 2**-8 + 1e-5
        worst = max(worst, ((out.float() - expected).abs() / bound).max().item())
    return worst


def refused(load: Any) -> None:
    """Prints the refusal; anything else is an error of this script's."""
    try:
        load()
    except (UntrustedLockfile, LockfileRolledBack) as error:
        print(f"refused: {type(error).__name__}: {error}")
    else:
        raise SystemExit("loaded what nobody trusts")


if __name__ == "__main__":
    raise SystemExit(main())
