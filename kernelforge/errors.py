"""Every error that kernelforge raises on purpose, in one tree.

An error says what is wrong, where, and what to do next. The families are what callers branch on: bad input (exit
code 2), store trouble and toolchain trouble (3), and a pod that must not run a kernel (``LoadError``). This module
knows no other module, so that each room can raise its own kind without importing another room.

    KernelForgeError
      InputError            ManifestError  TargetError  EncodingError  ContractError  OutOfBounds  UnknownFact
                            SourceError  LockfileError  UsageError
      StoreError            ObjectMissing  ObjectCorrupt  StoreUnavailable  StoreDenied  StoreFull  ObjectConflict
                            FormatUnknown  SweepRefused
        ObjectConflict      ChannelMoved
      PromotionRefused
      SweepTooLarge
      ToolchainError
      LoadError             UntrustedLockfile  DeviceMismatch  KernelMissing  LaunchCodeDiffers  RuntimeUnfit
                            PackCorrupt  UnsafeCache  CallRefused  LoadedBeforeFork
        UntrustedLockfile   LockfileExpired  LockfileRolledBack
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class KernelForgeError(Exception):
    """Base of all errors raised on purpose.

    ``problem`` is one sentence without a trailing full stop; ``hint`` is what to do next; ``where`` is a file,
    ``file:line``, object name or option, empty where there is none.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, problem: str, *, hint: str, where: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        prefix = f"{self.where}: " if self.where else ""
        return f"{prefix}{self.problem} (hint: {self.hint})"

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own reduce would call __init__ without the keyword arguments.
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(kind: type[KernelForgeError], state: dict[str, object]) -> KernelForgeError:
    error = kind.__new__(kind, state["problem"])
    error.__dict__.update(state)
    return error


class InputError(KernelForgeError):
    """What a human or a kernel class gave us cannot be used as it is."""

    exit_code = 2


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a manifest: where it stands, what it is, what to do."""

    file: str
    line: int
    what: str
    hint: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what} (hint: {self.hint})"


class ManifestError(InputError):
    """A deployment manifest, or a file that it names, has problems; all of them are in ``problems``."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        super().__init__(f"{count}, the first is: {first.what}", hint=first.hint, where=f"{first.file}:{first.line}")
        self.problems = tuple(problems)


class TargetError(InputError):
    """An architecture, host or CUDA flavour that we do not build for; the hint names the nearest one."""


class EncodingError(InputError):
    """A value has no stable encoding, so it cannot be part of a compile key; ``where`` names the field."""


class ContractError(InputError):
    """A kernel class does not keep the kernel contract."""


class OutOfBounds(InputError):
    """An axis lies beyond the limits that the kernel declares."""


class UnknownFact(InputError):
    """A kernel asked for a device fact that the device profile does not declare; the fact's name is in ``fact``."""

    def __init__(self, problem: str, *, hint: str, where: str = "", fact: str = "") -> None:
        super().__init__(problem, hint=hint, where=where)
        self.fact = fact


class SourceError(InputError):
    """The source of a kernel cannot be fingerprinted."""


class LockfileError(InputError):
    """A lockfile is not one that this version can read."""


class UsageError(InputError):
    """An option or argument of a command or function does not make sense."""


class StoreError(KernelForgeError):
    """Something about stored bytes. Only ``ObjectMissing`` is ever a miss."""


class ObjectMissing(StoreError):
    """The store answered, and the object is not there."""


class ObjectCorrupt(StoreError):
    """The object is there and its bytes are not those that its name or descriptor promises."""


class StoreUnavailable(StoreError):
    """The store did not answer in time, or answered that it cannot serve now."""


class StoreDenied(StoreError):
    """The store refused our credentials, or these do not permit the call."""


class StoreFull(StoreError):
    """No room is left, or the place is read-only."""


class ObjectConflict(StoreError):
    """A name that is written once already holds other bytes; the first stay."""


class ChannelMoved(ObjectConflict):
    """Somebody else moved a channel first; the text says who, when and to which lockfile."""


class FormatUnknown(StoreError):
    """The store, or a document in it, has a format that this version does not read; nothing is wrong with it."""


class PromotionRefused(KernelForgeError):
    """A policy keeps a channel from pointing at this lockfile; nothing was moved."""

    exit_code = 1


class SweepRefused(StoreError):
    """Garbage collection does not know what is needed, or another one is at work: from here on nothing was deleted."""


class SweepTooLarge(KernelForgeError):
    """A policy keeps garbage collection from deleting so much of the store at once; nothing was deleted."""

    exit_code = 1


class ToolchainError(KernelForgeError):
    """The compiler, the linker or what they need is absent, or is not the one asked for."""


class LoadError(KernelForgeError):
    """The pod must not run a kernel: found, expected and the fix are in the text."""


class UntrustedLockfile(LoadError):
    """A lockfile, or the ref that chose it, is not one that the caller trusts.

    ``reason`` is a word for programs: 'unpinned', 'unsigned' (nobody who is trusted has signed it), 'foreign' (somebody
    else has), 'misplaced' (a ref of another channel), 'altered', 'expired', 'rolled-back'.
    """

    def __init__(self, problem: str, *, hint: str, where: str = "", reason: str = "altered") -> None:
        super().__init__(problem, hint=hint, where=where)
        self.reason = reason


class LockfileExpired(UntrustedLockfile):
    """It was trusted until a time that has passed."""

    def __init__(self, problem: str, *, hint: str, where: str = "") -> None:
        super().__init__(problem, hint=hint, where=where, reason="expired")


class LockfileRolledBack(UntrustedLockfile):
    """A channel points at an older choice than the one that was seen there before."""

    def __init__(self, problem: str, *, hint: str, where: str = "") -> None:
        super().__init__(problem, hint=hint, where=where, reason="rolled-back")


class DeviceMismatch(LoadError):
    """The device in use is none that the lockfile has kernels for, or it contradicts its profile."""


class KernelMissing(LoadError):
    """No kernel of the lockfile has this compile key; the text names the nearest ones and the fields that differ."""


class LaunchCodeDiffers(LoadError):
    """A class's dispatch or launch code is not what the lockfile was made with."""


class RuntimeUnfit(LoadError):
    """A library or driver in the pod lacks what the pack needs."""


class PackCorrupt(LoadError):
    """A pack's bytes, architecture or symbols are not those in the lockfile."""


class UnsafeCache(LoadError):
    """Others can write to the cache folder, so nothing in it is opened."""


class CallRefused(LoadError):
    """The arguments of a call are not those that the kernel was compiled for; nothing was launched."""


class LoadedBeforeFork(LoadError):
    """The kernels belong to the parent of this process, and CUDA does not survive a fork; nothing was launched."""
