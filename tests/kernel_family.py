"""Small kernels for tests: one that works, and one for each way in which a kernel can go wrong.

They go through the real compiler. `Copy` is the one that works; the others share all of it but what they do
wrong in `kernel`.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelforge.contract import JitKernel, kernel_launcher


class Copy(JitKernel["Copy.CompileKey"]):
    """Copies `width` elements a row with one warp a row."""

    @dataclass(frozen=True)
    class CompileKey:
        width: int
        num_sms: int

    def dispatch(self, *, width: int) -> CompileKey:
        return self.CompileKey(width=width, num_sms=self.device.num_sms)

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        from tests.kernel_family_device import CopyDevice

        return CopyDevice(compile_key.width)

    def warmup_inputs(self, compile_key: CompileKey) -> tuple[Any, ...]:
        import cutlass
        from cutlass import cute
        from cutlass.cute.runtime import make_fake_tensor

        shape = (cute.sym_int32(), compile_key.width)
        stride = (compile_key.width, 1)
        return tuple(make_fake_tensor(cutlass.Float32, shape, stride, assumed_align=16) for _ in range(2))

    @kernel_launcher
    def __call__(self, *, source: Any, target: Any) -> tuple[Any, ...]:
        return self.dispatch(width=source.shape[1]), (source, target), target


class Raises(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        raise ValueError(f"no kernel for width {compile_key.width}")


class RaisesWhileTracing(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        from tests.kernel_family_device import BrokenDevice

        return BrokenDevice()


class Aborts(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        os.abort()


class Exits(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        raise SystemExit(0)


class ExitsHard(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        os._exit(0)


class Hangs(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        time.sleep(3600)


class HangsOnPurpose(Copy):
    """Ignores what a limit of its own process would send."""

    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGXCPU):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(3600)


class EatsMemory(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        eaten = []
        while True:
            eaten.append(b"x" * (16 << 20))
            time.sleep(0.01)  # so that the test does not depend on how fast memory can be had


class FillsTheDisk(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        with open("large", "wb") as file:
            file.truncate((1 << 30) + 1)  # takes no room, if it is allowed


class AbortsInPasses(Copy):
    """Ends its process when the compiler, having traced it, begins with its passes."""

    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        from cutlass._mlir import passmanager

        passmanager.PassManager.parse = lambda *_arguments, **_options: os.abort()
        return Copy.kernel(compile_key)


class CrashesOnce(Copy):
    """Ends its first process, and works in the second one."""

    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        been_here = Path(os.environ["HOME"], "CrashesOnce-has-crashed")
        if not been_here.exists():
            been_here.touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return Copy.kernel(compile_key)


class Moody(Copy):
    """Ends its process for one width, raises for another and works for the rest."""

    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        if compile_key.width == 96:
            os.abort()
        if compile_key.width == 160:
            raise ValueError("not this one")
        return Copy.kernel(compile_key)


class Remembers(Copy):
    """Works once in a process: what it changes there would make it fail the second time."""

    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        if "REMEMBERED" in os.environ:
            raise ValueError("this process has compiled me before")
        os.environ["REMEMBERED"] = "yes"
        return Copy.kernel(compile_key)


class AsksDriver(Copy):
    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        from cutlass.utils import HardwareInfo

        return HardwareInfo().get_max_active_clusters(2)


class AsksProfile(Copy):
    """Reads a device fact where only the key decides: other profiles would share its object."""

    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    def warmup_inputs(self, compile_key: Any) -> tuple[Any, ...]:
        assert self.device.arch.startswith("sm_")
        return super().warmup_inputs(self.CompileKey(width=self.device.num_sms, num_sms=0))


class Untidy(Copy):
    """Works, but prints and changes its process: the bytes must be those of a tidy kernel."""

    @dataclass(frozen=True)
    class CompileKey(Copy.CompileKey):
        pass

    @staticmethod
    def kernel(compile_key: Any) -> Any:
        from tests.kernel_family_device import CopyDevice

        print("a kernel that prints")  # noqa: T201
        os.environ["CUTE_DSL_KEEP_PTX"] = "1"
        os.chdir("/")
        return CopyDevice(compile_key.width)
