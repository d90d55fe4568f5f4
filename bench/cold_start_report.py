"""What ``cold_start.py`` makes of its measurements: medians and spreads, a table of ratios, a plot."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_LABELS = {
    "compile": "compile in the pod (cute.compile)",
    "object files": ".o files, cute.runtime.load_module",
    "cold, first request": "kernelforge, cold, S3 client made first",
    "cold": "kernelforge, cold, S3 client in use",
    "warm": "kernelforge, cache warm",
    "floor": "floor: sha256 + dlopen + look-ups",
    "one GET": "one GET of the pack",
}


def summary(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """By way: median, least and largest total in seconds, and the median of every step."""
    return {
        way: {
            "median_s": statistics.median(row["total"] for row in rows),
            "min_s": min(row["total"] for row in rows),
            "max_s": max(row["total"] for row in rows),
            "repetitions": len(rows),
            "steps_s": {
                step: statistics.median(row.get(step, 0.0) for row in rows) for step in rows[-1] if step != "total"
            },
        }
        for way, rows in runs.items()
    }


def table(results: Mapping[str, Any]) -> str:
    """All totals with their ratio to the floor of the same run; then calls and imports."""
    lines = [", ".join(f"{name} {value}" for name, value in results["machine"].items())]
    for count, ways in results["kernels"].items():
        floor_s = ways["floor"]["median_s"]
        lines += ["", f"{count} kernels{'':31}    median ms      min      max   x floor"]
        for way, found in ways.items():
            numbers = "".join(f"{found[key] * 1e3:9.2f}" for key in ("min_s", "max_s"))
            lines.append(
                f"{_LABELS[way]:42} {found['median_s'] * 1e3:9.2f}{numbers} {found['median_s'] / floor_s:9.2f}"
            )
        if "cold" in ways:
            expected_s = ways["one GET"]["median_s"] + floor_s
            lines.append(f"cold / (one GET + floor): {ways['cold']['median_s'] / expected_s:.2f}")
        steps = ways["warm"]["steps_s"].items()
        lines.append("warm, ms by step: " + ", ".join(f"{step} {seconds * 1e3:.2f}" for step, seconds in steps))
    return "\n".join([*lines, "", *_beside(results["beside"])])


def _beside(beside: Mapping[str, Any]) -> list[str]:
    imports = beside["imports"]["steps_s"]
    lines = [
        f"import kernelforge {imports['kernelforge'] * 1e3:.1f} ms, then its loader {imports['loader'] * 1e3:.1f} ms "
        "(after torch and tvm_ffi)"
    ]
    if "calls" in beside:
        calls = beside["calls"]["steps_s"]
        us = {name: calls[name] * 1e6 for name in ("raw", "held", "class")}
        lines.append(
            f"host us per call: tvm-ffi {us['raw']:.2f}, held by the caller {us['held']:.2f} "
            f"({us['held'] / us['raw']:.2f} x), kernel class {us['class']:.2f} ({us['class'] / us['raw']:.2f} x); "
            f"binding the class {calls['bind'] * 1e3:.1f} ms"
        )
    return lines


def plot(results: Mapping[str, Any], path: Path) -> None:
    """Bars of the medians on a logarithmic scale, one panel for each number of kernels, as a PNG."""
    import matplotlib  # type: ignore[import-not-found,unused-ignore]

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {
        count: {way: found for way, found in ways.items() if way != "one GET"}
        for count, ways in results["kernels"].items()
    }
    figure, panels = pyplot.subplots(
        len(shown), 1, sharex=True, squeeze=False, figsize=(9, 1 + 2.2 * len(shown)), layout="constrained"
    )
    for panel, (count, ways) in zip(panels[:, 0], shown.items(), strict=True):
        labels = [_LABELS[way] for way in ways]
        medians_ms = [found["median_s"] * 1e3 for found in ways.values()]
        colors = ["#76b900" if way in ("warm", "cold", "cold, first request") else "#9a9a9a" for way in ways]
        bars = panel.barh(labels, medians_ms, color=colors)
        panel.bar_label(bars, [f"{value:,.1f} ms" if value < 1e3 else f"{value / 1e3:,.1f} s" for value in medians_ms])
        panel.set(xscale="log", title=f"{count} kernels")
        panel.invert_yaxis()
        panel.margins(x=0.2)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1, 0].set_xlabel(
        f"milliseconds until all are callable, from torch and CUDA up ({results['machine']['gpu']})"
    )
    figure.savefig(path, dpi=150)
