"""Stands where a kernel would ask about the GPU while it is compiled, so that third-party kernels compile unchanged.

Replaces the compiler's ``HardwareInfo`` and the questions of ``cuda.bindings`` in a process that compiles; the answers
are those of the key that is being compiled (``hardware``). The same on machines with a GPU, whose answers would end up
in objects for others. Imports the compiler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from kernelforge.builder.hardware import KeyAnswers
from kernelforge.target import compute_capability

# Attribute of the driver, without its prefix -> fact.
_FACT_OF_ATTRIBUTE = {
    "MULTIPROCESSOR_COUNT": "num_sms",
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": "shared_memory_per_block_bytes",
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": "shared_memory_per_sm_bytes",
    "MAX_REGISTERS_PER_MULTIPROCESSOR": "registers_per_sm",
    "L2_CACHE_SIZE": "l2_bytes",
}
# Of every device there is: CUDA C++ Programming Guide, technical specifications per compute capability.
_SAME_EVERYWHERE = {"WARP_SIZE": 32, "MAX_THREADS_PER_BLOCK": 1024}
_Answers = Mapping[str, Callable[..., int]]
_PREFIX = "CU_DEVICE_ATTRIBUTE_"


class _Asked:
    """Whose answers count now."""

    answers: KeyAnswers


def answer_for(key: object, arch: str) -> None:
    """From now on questions are answered for a device of ``arch`` as this compile key describes it."""
    _Asked.answers = KeyAnswers(arch, key)


class HardwareInfo:
    """The compiler's class of this name, for the key that is being compiled. Other questions raise ``UnknownFact``."""

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id

    def get_max_active_clusters(self, cluster_size: int, stream: object = None) -> int:
        """Clusters of this many blocks that are resident at once; of a stream of its own nothing is known."""
        if stream is not None:
            _Asked.answers.refuse("max_active_clusters of a stream")
        return _Asked.answers.max_active_clusters(cluster_size)

    def get_device_multiprocessor_count(self) -> int:
        """SMs of the device."""
        return _Asked.answers.number("num_sms")

    def get_l2_cache_size_in_bytes(self) -> int:
        """Level 2 cache of the device."""
        return _Asked.answers.number("l2_bytes")

    def __getattr__(self, question: str) -> NoReturn:
        if question.startswith("__"):
            raise AttributeError(question)
        _Asked.answers.refuse(f"HardwareInfo.{question}")


def stand_in(arch: str) -> None:
    """Replace what answers for this machine, for good: in a process that only compiles for ``arch``."""
    answer_for(None, arch)
    import cutlass.utils
    from cuda.bindings import driver, runtime
    from cutlass.utils import hardware_info

    hardware_info.HardwareInfo = HardwareInfo
    cutlass.utils.HardwareInfo = HardwareInfo
    names = {int(value): name.removeprefix(_PREFIX) for name, value in driver.CUdevice_attribute.__members__.items()}
    # The runtime's attributes have the driver's numbers.
    by_number: _Answers = {"DeviceGetAttribute": lambda asked, _device: _attribute(names[int(asked)])}
    one_device: _Answers = {"DeviceGetCount": lambda: 1, "DeviceGet": lambda _ordinal: 0, "CtxGetDevice": lambda: 0}
    one_device_of_runtime: _Answers = {"GetDeviceCount": lambda: 1, "GetDevice": lambda: 0}
    _replace(driver, "cu", driver.CUresult.CUDA_SUCCESS, {**by_number, **one_device})
    _replace(runtime, "cuda", runtime.cudaError_t.cudaSuccess, {**by_number, **one_device_of_runtime})
    driver.cuInit = lambda _flags: (driver.CUresult.CUDA_SUCCESS,)


def _replace(module: Any, prefix: str, success: Any, answers: _Answers) -> None:
    """Put answers in the place of functions, which return a status and a value."""
    for name, answer in answers.items():
        setattr(module, f"{prefix}{name}", functools.partial(_answered, success, answer))


def _answered(success: Any, answer: Callable[..., int], *asked: Any) -> tuple[Any, int]:
    return success, answer(*asked)


def _attribute(name: str) -> int:
    answers = _Asked.answers
    if name.startswith("COMPUTE_CAPABILITY_"):
        return compute_capability(answers.arch)[name.endswith("MINOR")]
    if name in _SAME_EVERYWHERE:
        return _SAME_EVERYWHERE[name]
    if name not in _FACT_OF_ATTRIBUTE:
        answers.refuse(f"{_PREFIX}{name}")
    return answers.number(_FACT_OF_ATTRIBUTE[name])
