"""What a build costs beside the bare compiler: ``kernelforge build`` and plain ``cute.compile``, same keys, one run.

    python -m bench.build --keys 200

Plain is what a CI script of one's own would do, without a store, a lockfile, a pack, checks or isolation:

- "plain, serial": ``cute.compile`` and ``export_to_c``, key after key in one process, as the compiler's manual shows;
- "plain, tuned": the same without what a build does not need either: no torch, no host code linked into the process;
- "plain, 2 workers": a spawn pool of processes that do what "plain, serial" does.

Ours is the command as CI runs it: into empty stores, then, with 2 jobs, again and after changes of the sources. The
kernels are two copies of ``kernelforge.kernels``, so that a change can reach one of them; the second has 4 of the
keys. Every way is a process of its own with a temporary folder as its home. CPU is user + system of that process and
all that it waited for; the peak is that of the largest process. A small run of both, not counted, comes first: nobody
shall be the first to read the compiler's files. Each repetition does everything anew; medians are printed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

_REPOSITORY = Path(__file__).parents[1]
_KERNELS = _REPOSITORY / "kernelforge" / "kernels"
_FIRST, _SECOND = "first_kernels", "second_kernels"
_PROFILE, _ARCH, _NUM_SMS = "h200-sxm", "sm_90a", 132
# As bench/cold_start_build.py has them: row lengths, and for each of them 4 choices that decide code.
_KEYS_PER_HIDDEN = 4
_TOKENS, _DTYPE, _RESIDUALS, _EPS, _WEIGHT_OFFSET = 16, "bfloat16", (False, True), (1e-6, 1e-5), 0.0
_MOST_KEYS = 500  # longer rows than those are beyond the kernel's bounds
_WORKERS = 2
_JOBS = (1, 2, 4)
_PLAIN, _TUNED, _AGAIN = "plain, serial", "plain, tuned", "again: "
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Cost:
    """What one way took. ``workers``: compiles at a time. What no report tells is ``None``."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    workers: int
    compiled: int | None = None
    requests: int | None = None


# --- plain: in a child process that knows of kernelforge what the kernel itself imports


def hiddens(keys: int) -> Iterator[tuple[str, list[int]]]:
    """For each copy of the kernel its row lengths."""
    lengths = [1024 + 120 * index for index in range(keys // _KEYS_PER_HIDDEN)]
    yield _FIRST, lengths[1:]
    yield _SECOND, lengths[:1]


def plain_keys(keys: int) -> list[tuple[str, Any, Any]]:
    """``(symbol, kernel, compile key)`` of what the manifest gives, without a manifest."""
    from kernelforge.contract import symbol_of
    from kernelforge.device import DeviceProfile, Fact

    profile = DeviceProfile(_PROFILE, _ARCH, {"num_sms": Fact(_NUM_SMS, "specs/devices")})
    found = []
    for package, lengths in hiddens(keys):
        kernel = importlib.import_module(f"{package}.rms_norm").RmsNorm(device=profile)
        for hidden, has_residual, eps in itertools.product(lengths, _RESIDUALS, _EPS):
            key = kernel.dispatch(
                tokens=_TOKENS,
                hidden=hidden,
                dtype=_DTYPE,
                has_residual=has_residual,
                eps=eps,
                weight_offset=_WEIGHT_OFFSET,
            )
            found.append((symbol_of(f"{package}.rms_norm:RmsNorm", key), kernel, key))
    return found


def compile_plainly(symbol: str, kernel: Any, key: Any, out: Path, *, tuned: bool = False) -> None:
    """One key into ``<symbol>.o``; the architecture comes from ``CUTE_DSL_ARCH``."""
    from cutlass import cute

    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    arguments = (*kernel.warmup_inputs(key), stream)
    options = {"no_jit_engine": True} if tuned else {}
    compiled = cute.compile(kernel.kernel(key), *arguments, options="--enable-tvm-ffi", **options)
    compiled.export_to_c(str(out / f"{symbol}.o"), function_name=symbol)


def _compile_numbered(task: tuple[int, int, Path]) -> None:
    keys, number, out = task
    compile_plainly(*plain_keys(keys)[number], out)


def plain(way: str, keys: int, out: Path) -> None:
    """The child's work."""
    if way == "pool":
        tasks = [(keys, number, out) for number in range(keys)]
        with multiprocessing.get_context("spawn").Pool(_WORKERS) as pool:
            pool.map(_compile_numbered, tasks, chunksize=1)
            pool.close()
            pool.join()  # what was not waited for is not counted
        return
    if way == "tuned":
        sys.modules["torch"] = None  # type: ignore[assignment]  # makes `import torch` raise ImportError
    for key in plain_keys(keys):
        compile_plainly(*key, out, tuned=way == "tuned")


# --- the parent


class Bench:
    """One repetition in a folder of its own."""

    def __init__(self, folder: Path, keys: int) -> None:
        self._folder = folder
        self._keys = keys
        self._sources = folder / "sources"
        self._manifest = folder / "manifest.yaml"
        self._manifest.write_text(json.dumps(manifest(keys)))  # JSON is YAML
        for package in (_FIRST, _SECOND):
            copy_kernels(self._sources / package)

    def run(self) -> dict[str, Cost]:
        """All ways, in the order of the table."""
        costs = {
            _PLAIN: self._plain("serial"),
            _TUNED: self._plain("tuned"),
            f"plain, {_WORKERS} workers": self._plain("pool"),
        }
        for jobs in _JOBS:
            costs[f"build, jobs {jobs}"] = self._build(jobs, f"store-{jobs}", self._keys)
        second = self._sources / _SECOND / "row_device.py"
        changes: dict[str, tuple[Callable[[], None], int]] = {
            "nothing changed": (lambda: None, 0),
            "a comment in each": (self._comment, 0),
            "a helper moved in its file": (lambda: move_helper(second), 0),
            "one kernel changed": (lambda: change_arithmetic(second), _KEYS_PER_HIDDEN),
        }
        for name, (change, compiles) in changes.items():
            change()
            costs[f"{_AGAIN}{name}"] = self._build(_WORKERS, f"store-{_WORKERS}", compiles)
        return costs

    def warm_up(self) -> None:
        """Read all files that the ways read."""
        self._plain("serial")
        self._build(1, "store-1", self._keys)

    def _plain(self, way: str) -> Cost:
        out = Path(tempfile.mkdtemp(prefix=f"{way}-", dir=self._folder))
        command = [sys.executable, "-m", "bench.build", "--plain", way, "--keys", str(self._keys), "--out", str(out)]
        cost, _ = self._measured(command, _WORKERS if way == "pool" else 1)
        made = len(list(out.glob("*.o")))
        if made != self._keys:
            raise SystemExit(f"{way} made {made} objects of {self._keys}")
        return cost

    def _build(self, jobs: int, store: str, compiles: int) -> Cost:
        lock = self._folder / f"{store}.lock.json"
        command = [sys.executable, "-m", "kernelforge.cli.main", "build", str(self._manifest), "--json"]
        command += ["--store", (self._folder / store).as_uri(), "--lock", str(lock), "--jobs", str(jobs)]
        cost, out = self._measured(command, jobs)
        report = json.loads(out)
        totals = report["totals"]
        if (totals["keys"], totals["built"]) != (self._keys, compiles):
            raise SystemExit(f"{totals} instead of {compiles} compiles of {self._keys} keys")
        self._check_symbols(lock)
        return Cost(cost.wall_s, cost.cpu_s, cost.peak_mib, jobs, totals["built"], report["requests"])

    def _check_symbols(self, lock: Path) -> None:
        """Both ways must have compiled the same keys; a symbol stands for one."""
        ours = {entry["symbol"] for entry in json.loads(lock.read_text())["entries"]}
        if ours != {path.stem for folder in self._folder.glob("serial-*") for path in folder.glob("*.o")}:
            raise SystemExit("plain and build compiled different keys")

    def _measured(self, command: Sequence[str], workers: int) -> tuple[Cost, str]:
        home = Path(tempfile.mkdtemp(prefix="home-", dir=self._folder))
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as words:
            started = time.perf_counter()
            process = subprocess.Popen(command, stdout=out, stderr=words, cwd=home, env=self._environment(home))
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            words.seek(0)
            if process.returncode:
                raise SystemExit(
                    f"{' '.join(command)}: exit code {process.returncode}\n{words.read().decode()[-4000:]}"
                )
            # ru_maxrss is in KiB on Linux.
            cost = Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, workers)
            return cost, out.read().decode()

    def _environment(self, home: Path) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join((str(self._sources), str(_REPOSITORY))),
            # Edited sources must be read again, even within the second in which they were compiled.
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUTE_DSL_ARCH": _ARCH,
        }

    def _comment(self) -> None:
        for package in (_FIRST, _SECOND):
            edit(self._sources / package / "row_device.py", lambda text: f"{text}\n# A comment.\n")


def manifest(keys: int) -> dict[str, Any]:
    """The deployment of which ``plain_keys`` are the compile keys."""
    kernels = []
    for package, lengths in hiddens(keys):
        arguments = {
            "tokens": _TOKENS,
            "hidden": {"choices": lengths},
            "dtype": _DTYPE,
            "has_residual": {"choices": list(_RESIDUALS)},
            "eps": {"choices": list(_EPS)},
            "weight_offset": _WEIGHT_OFFSET,
        }
        kernels.append({"kernel": f"{package}.rms_norm:RmsNorm", "arguments": arguments})
    return {"schema": "kernelforge.manifest/1", "name": "bench-build", "targets": [_PROFILE], "kernels": kernels}


def copy_kernels(folder: Path) -> None:
    """The kernels of this repository as a package of their own, which may be edited."""
    shutil.copytree(_KERNELS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.glob("*.py"):
        path.write_text(path.read_text().replace("kernelforge.kernels.", f"{folder.name}."))


def move_helper(path: Path) -> None:
    """The first function to the end of its file: every line below it moves up."""

    def moved(text: str) -> str:
        before, first, *others = text.split("\n\n\ndef ")
        return "\n\n\ndef ".join((before, *(other.rstrip() for other in others), first)) + "\n"

    edit(path, moved)


def change_arithmetic(path: Path) -> None:
    """Other code for every key: a division instead of a product with the reciprocal."""
    edit(path, lambda text: text.replace("total * (1.0 / elements)", "total / elements"))


def edit(path: Path, change: Callable[[str], str]) -> None:
    """Write the changed text; a change that changes nothing would measure nothing."""
    text = path.read_text()
    changed = change(text)
    if changed == text:
        raise SystemExit(f"{path.name} is not what this benchmark knows how to edit")
    path.write_text(changed)


def median_costs(repetitions: Sequence[Mapping[str, Cost]]) -> dict[str, Cost]:
    """Each number's median over the repetitions."""
    return {way: _median([costs[way] for costs in repetitions]) for way in repetitions[0]}


def _median(costs: Sequence[Cost]) -> Cost:
    numbers = {name: [getattr(cost, name) for cost in costs] for name in asdict(costs[0])}
    medians: dict[str, Any] = {
        name: None if None in found else statistics.median_low(found) for name, found in numbers.items()
    }
    return Cost(**medians)


def table(costs: Mapping[str, Cost]) -> str:
    """One line for each way, with ratios to both serial ones."""
    plain_cpu_s, tuned_cpu_s = costs[_PLAIN].cpu_s, costs[_TUNED].cpu_s
    lines = [
        f"{'':34} {'wall s':>8} {'CPU s':>8} {'peak MiB':>8} {'built':>6} {'requests':>8} "
        f"{'CPU/plain':>9} {'CPU/tuned':>9} {'wall*n/plain CPU':>16}"
    ]
    for way, cost in costs.items():
        built, requests = ("" if count is None else str(count) for count in (cost.compiled, cost.requests))
        busy = "" if way.startswith(_AGAIN) else f"{cost.wall_s * _cores(cost.workers) / plain_cpu_s:.3f}"
        lines.append(
            f"{way:34} {cost.wall_s:8.2f} {cost.cpu_s:8.2f} {cost.peak_mib:8.0f} {built:>6} {requests:>8} "
            f"{cost.cpu_s / plain_cpu_s:9.3f} {cost.cpu_s / tuned_cpu_s:9.3f} {busy:>16}"
        )
    return "\n".join([*lines, f"n: workers or jobs, and at most the {_cores()} cores that this process may use"])


def _cores(workers: int = sys.maxsize) -> int:
    return min(workers, len(os.sched_getaffinity(0)))


def machine() -> str:
    """What a result depends on."""
    compiler = importlib.metadata.version("nvidia-cutlass-dsl")
    return f"Python {platform.python_version()}, nvidia-cutlass-dsl {compiler}, {_cores()} cores"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=200, help="a multiple of 4, from 8 to 500")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plain", choices=["serial", "tuned", "pool"], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.keys % _KEYS_PER_HIDDEN or not 2 * _KEYS_PER_HIDDEN <= options.keys <= _MOST_KEYS:
        parser.error("--keys must be a multiple of 4, from 8 to 500")
    if options.plain:
        plain(options.plain, options.keys, options.out)
        return
    _in_fresh_folder(2 * _KEYS_PER_HIDDEN, Bench.warm_up)
    repetitions = []
    for number in range(options.repetitions):
        repetitions.append(_in_fresh_folder(options.keys, Bench.run))
        print(f"repetition {number + 1} of {options.repetitions}", file=sys.stderr)
    found = [{way: asdict(cost) for way, cost in costs.items()} for costs in repetitions]
    if options.json:
        print(json.dumps({"machine": machine(), "keys": options.keys, "found": found}, indent=1))
    else:
        print(f"{machine()}, {options.keys} keys\n{table(median_costs(repetitions))}")


def _in_fresh_folder(keys: int, action: Callable[[Bench], _Result]) -> _Result:
    with tempfile.TemporaryDirectory(prefix="bench-build-") as folder:
        return action(Bench(Path(folder), keys))


if __name__ == "__main__":
    main()
