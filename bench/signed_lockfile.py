"""What trusting a key costs a pod beside pinning a digest, in fresh processes: ``python -m bench.signed_lockfile``.

Both read and parse the same lockfile from a file, as the first two steps of a load do. The signed one also imports what
checks signatures, reads the public key, and checks one signature. Runs alternate, and the medians are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from kernelforge.lockfile import Lockfile
from kernelforge.release.keys import SigningKey
from kernelforge.release.provenance import LOCAL_BUILDER, Provenance
from kernelforge.release.signature import signature_path
from kernelforge.release.signing import sign
from kernelforge.release.statement import Statement

_RELEASE = Path(__file__).parents[1] / "registry" / "releases" / "qwen3-8b.lock.json"

_CHILD = """
import json, sys, time
import kernelforge.loader.load
from kernelforge.loader.trust import PinnedDigest, TrustedKeys, parse_trusted, read_trusted
path, trust = sys.argv[1], PinnedDigest(sys.argv[3]) if sys.argv[2] == "pinned" else TrustedKeys([sys.argv[3]])
times = []
for _ in range(2):
    started = time.perf_counter()
    parse_trusted(read_trusted(path, trust))
    times.append(time.perf_counter() - started)
print(json.dumps(times))
"""


def measure(lockfile: Path, runs: int) -> dict[str, dict[str, float]]:
    """Median seconds of the first and of the second read in a process, by kind of trust."""
    with tempfile.TemporaryDirectory() as folder:
        path, key = Path(folder, lockfile.name), SigningKey.new()
        path.write_bytes(lockfile.read_bytes())
        lock = Lockfile.parse(path.read_bytes(), where=str(lockfile))
        made = Provenance.of(lock, domain="release", source=None, builder=LOCAL_BUILDER, version="bench")
        beside, public = signature_path(path, key.public.key_id), Path(folder, "release.pub")
        beside.parent.mkdir()
        beside.write_bytes(sign(Statement(lock.digest, made, datetime.now(timezone.utc), None), key))
        public.write_bytes(key.public.to_pem())
        trusts = {"pinned": str(lock.digest), "signed": str(public)}
        times: dict[str, list[list[float]]] = {kind: [] for kind in trusts}
        for _ in range(runs):
            for kind, trust in trusts.items():
                times[kind].append(_child(path, kind, trust))
    return {
        kind: {"first": statistics.median(first), "second": statistics.median(second)}
        for kind, (first, second) in ((kind, zip(*found, strict=True)) for kind, found in times.items())
    }


def _child(path: Path, kind: str, trust: str) -> list[float]:
    command = [sys.executable, "-c", _CHILD, str(path), kind, trust]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    times: list[float] = json.loads(done.stdout)
    return times


def main() -> None:
    """Print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lockfile", type=Path, default=_RELEASE)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    medians = measure(options.lockfile, options.runs)
    ratios = {read: medians["signed"][read] / medians["pinned"][read] for read in ("first", "second")}
    if options.json:
        print(json.dumps({"lockfile": options.lockfile.name, "seconds": medians, "ratio": ratios}, indent=1))
        return
    print(f"{options.lockfile.name}, {options.lockfile.stat().st_size:,} bytes, medians of {options.runs} processes")
    for read, ratio in ratios.items():
        pinned, signed = medians["pinned"][read] * 1e3, medians["signed"][read] * 1e3
        print(f"{read:>6} read: pinned {pinned:6.2f} ms, signed {signed:6.2f} ms, ratio {ratio:.1f}")


if __name__ == "__main__":
    main()
