"""A load's numbers as OpenMetrics text, for whatever scrapes the pod.

Written by hand: the format is a page long, and a pod that serves metrics already has a library of its own whose
registry is not ours to fill. Families and their rules: the OpenMetrics specification 1.0, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kernelforge.digest import Digest
from kernelforge.loader.stats import ERROR_PREFIX, HITS, JIT, MISSES, LoadStats

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_COUNTER_HELP = {
    HITS: "Compile keys that were asked for and found.",
    MISSES: "Times that a compile key was asked for which the lockfile lacks.",
    JIT: "Kernels that this process compiled, or had compiled, for want of them in the lockfile.",
    "downloads": "Packs that this process fetched from the store.",
    "waited": "Times that this process waited for another one of this machine to fetch a pack.",
    "without_lock": "Packs that were fetched without a lock, because the cache's file system has none.",
}


@dataclass(frozen=True)
class _Family:
    """One metric family; a sample is its labels and its value."""

    name: str
    kind: str
    help: str
    samples: tuple[tuple[Mapping[str, str], float], ...]
    unit: str = ""

    def lines(self) -> Iterator[str]:
        yield f"# TYPE {self.name} {self.kind}"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {_escaped(self.help)}"
        suffix = {"counter": "_total", "info": "_info"}.get(self.kind, "")
        for labels, value in self.samples:
            pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{suffix}{{{pairs}}} {value}" if pairs else f"{self.name}{suffix} {value}"


def openmetrics_text(stats: LoadStats, *, device: str, arch: str, lockfile: Digest) -> str:
    """All families, each sample once, and the end mark.

    Counters start at zero with every ``KernelSet``; a process with several joins their texts under a label of its own.
    """
    labels = {"device": device, "arch": arch, "lockfile": str(lockfile), "pack_source": stats.pack_source}
    families = [
        _Family("kernelforge_release", "info", "What was loaded.", ((labels, 1),)),
        _gauge("kernelforge_kernels", "Kernels that are callable.", stats.kernels),
        _gauge("kernelforge_kernel_classes", "Kernel classes that they belong to.", stats.kernel_classes),
        _gauge("kernelforge_pack_bytes", "Size of the pack.", stats.pack_bytes, unit="bytes"),
        _gauge("kernelforge_pack_in_memory", "1 when the pack was opened from memory.", int(stats.is_in_memory)),
        _gauge("kernelforge_cache_damaged", "1 when the cached copy was damaged.", int(stats.had_damaged_copy)),
        _Family(
            "kernelforge_load_seconds",
            "gauge",
            "Wall time of the load, by step.",
            tuple(({"step": step}, seconds) for step, seconds in stats.seconds.items()),
            unit="seconds",
        ),
        *_saved(stats),
        *_counters(stats),
    ]
    return "".join(f"{line}\n" for family in families for line in family.lines()) + "# EOF\n"


def _gauge(name: str, text: str, value: float, *, unit: str = "") -> _Family:
    return _Family(name, "gauge", text, (({}, value),), unit)


def _saved(stats: LoadStats) -> Iterator[_Family]:
    if stats.saved_s is not None:
        text = "CPU time that compiling the loaded kernels took when they were built."
        yield _gauge("kernelforge_saved_seconds", text, stats.saved_s, unit="seconds")


def _counters(stats: LoadStats) -> Iterable[_Family]:
    errors = tuple(({"kind": kind}, count) for kind, count in sorted(stats.errors.items()))
    yield _Family("kernelforge_errors", "counter", "Errors that were survived, or raised by a look-up or call.", errors)
    for name, count in sorted(stats.counters.items()):
        if not name.startswith(ERROR_PREFIX):
            text = _COUNTER_HELP.get(name, f"Times that the loader counted {name.replace('_', ' ')}.")
            yield _Family(f"kernelforge_{name}", "counter", text, (({}, count),))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
