"""A kernel whose own options try to change those of the build, and one whose option must be heeded."""

from __future__ import annotations

from dataclasses import dataclass

from tests.kernel_family import Copy


class Stubborn(Copy):
    compile_options = "--gpu-arch sm_80 --dump-dir /nonexistent --opt-level 1"

    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass
