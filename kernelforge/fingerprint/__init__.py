"""Source fingerprints: what code a kernel's objects, and a kernel's launches, depend on.

Read from source files alone, so that a planner needs no compiler and a pod imports nothing. Two fingerprints:

- the *device* fingerprint is in the key digest. It starts at what a builder runs;
- the *launch* fingerprint is in the lockfile. It starts at what a pod runs; a pod whose class differs refuses to bind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelforge.digest import Digest
from kernelforge.encoding import labelled
from kernelforge.errors import SourceError
from kernelforge.fingerprint.classes import ClassName
from kernelforge.fingerprint.closure import Closure
from kernelforge.fingerprint.modules import SourceTree
from kernelforge.fingerprint.project import Project

FINGERPRINT_VERSION = 1

# A builder constructs the class (constructors always count), asks for the entry point and the inputs, and hands the
# options to the compiler. `requires_dsl`, `bounds` and `supported` only say which keys may be built, and `dispatch` and
# `get_warmup_keys` which are asked for.
DEVICE_MEMBERS = ("CompileKey", "kernel", "warmup_inputs", "compile_options")

# A pod constructs the class, checks limits, picks a key and describes the launch. `get_warmup_keys` stays out: a pod
# never runs it, its answer is the lockfile's list of keys, and a pod that refuses to bind is an outage.
LAUNCH_MEMBERS = ("CompileKey", "dispatch", "__call__", "bounds", "supported", "bind")


@dataclass(frozen=True)
class Fingerprint:
    """``parts``: ``module:Qualified.name`` of each definition (also ``dist:name==version``) -> its digest."""

    digest: Digest
    parts: Mapping[str, Digest]


def device_fingerprint(kernel: str, tree: SourceTree | None = None) -> Fingerprint:
    """Fingerprint of everything in its project that decides the kernel's objects; installed distributions by version.

    ``kernel`` is ``module:ClassName``; ``tree`` is shared between calls so that each file is parsed once.
    Raises ``SourceError``: no source, a syntax error, or code that is found by a computed name.
    """
    return fingerprint(kernel, DEVICE_MEMBERS, tree=tree, with_versions=True)


def launch_fingerprint(kernel: str, tree: SourceTree | None = None) -> Fingerprint:
    """Fingerprint of the code that a pod runs to pick a key and launch it; raises as ``device_fingerprint``.

    Versions of other distributions are left out: CI and pod may have different ones (torch above all), or none.
    """
    return fingerprint(kernel, LAUNCH_MEMBERS, tree=tree, with_versions=False)


def fingerprint(
    kernel: str, members: Sequence[str], *, tree: SourceTree | None = None, with_versions: bool
) -> Fingerprint:
    """Fingerprint of what the given members reach; those that the contract's base class defines stop there."""
    module, _, class_name = kernel.partition(":")
    project = Project(ClassName(module, class_name), tree or SourceTree())
    if not project.find_classes(module, (class_name,)):
        raise SourceError(
            f"there is no class {class_name!r} at the top level of {project.tree.module(module).file}",
            hint="a kernel is named module:ClassName, and a class statement at the top level of the module defines it",
            where=kernel,
        )
    try:
        parts = dict(sorted(Closure(project, with_versions=with_versions).of(members).items()))
    except RecursionError as error:
        raise SourceError(
            "its code is nested too deeply to be read (hundreds of elif branches or operators in one statement)",
            hint="split the statement, or use a table",
            where=kernel,
        ) from error
    fields = {"fingerprint version": FINGERPRINT_VERSION, "parts": {name: digest.hex for name, digest in parts.items()}}
    return Fingerprint(Digest.of(labelled(fields, where=kernel)), parts)
