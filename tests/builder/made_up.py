"""Compiles and links that are made up: for what becomes of their results, which neither compiler nor linker decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kernelforge.builder.build import BuildOptions
from kernelforge.builder.job import CUBIN_FILE, OBJECT_FILE, CompileFacts, CompileJob, Finished, Limits
from kernelforge.builder.link import Linked, Linker
from kernelforge.reporting import Failure

OPTIONS = BuildOptions(workers=2, limits=Limits(1, 1 << 30), sys_path=())
FACTS = CompileFacts("13.4.59", 40, 0, 0, 128, "sha256:ptx", "sha256:ir", (), seconds=0.5)
FAILURE = Failure("compile", "ValueError: no")


@dataclass(frozen=True)
class Made:
    """What a compile came to."""

    object: bytes
    image: bytes = b"image"
    ptx_digest: str = "sha256:ptx"


class MadeUpPool:
    """Stands for the compiling processes. ``results``: symbol -> what was made, a failure, or an interrupt."""

    processes_started = 1

    def __init__(self, results: Mapping[str, Made | Failure | BaseException], folder: Path) -> None:
        self._results = results
        self._folder = folder

    def __enter__(self) -> MadeUpPool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, jobs: Sequence[CompileJob]) -> Iterator[Finished]:
        for job in jobs:
            result = self._results.get(job.symbol, Made(f"object of {job.symbol}".encode()))
            if isinstance(result, BaseException):
                raise result
            if isinstance(result, Failure):
                yield Finished(job, self._folder, None, result)
                continue
            folder = self._folder / job.symbol
            folder.mkdir()
            (folder / OBJECT_FILE).write_bytes(result.object)
            (folder / CUBIN_FILE).write_bytes(result.image)
            yield Finished(job, folder, replace(FACTS, ptx_digest=result.ptx_digest), None)


def compile_by_making_up(
    monkeypatch: pytest.MonkeyPatch, results: Mapping[str, Made | Failure | BaseException]
) -> None:
    """The next builds get these results, and for other symbols an object that says its name."""

    def make(setups: object, *, workers: int, folder: Path) -> MadeUpPool:
        return MadeUpPool(results, folder)

    monkeypatch.setattr("kernelforge.builder.build.Pool", make)


def link_by_making_up(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The symbols of each link from now on; objects that are made up cannot be linked for real."""
    links: list[list[str]] = []

    def link(self: Linker, objects: Sequence[tuple[str, bytes]], folder: Path) -> Linked:
        links.append(sorted(symbol for symbol, _ in objects))
        return Linked(b"pack of " + b", ".join(sorted(data for _, data in objects)), ("libtvm_ffi.so",), ("abort",))

    monkeypatch.setattr(Linker, "link", link)
    return links
