"""The keys of a manifest and of a device profile: names, types, which of them are optional. Nothing about meaning.

One pydantic model for each mapping, none inside another: a section with a mistake does not hide the mistakes of the
next, and what is right in it can still be used. Strict: no value is converted.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from kernelforge.manifest.problems import did_you_mean
from kernelforge.target import CUDA_FLAVOURS, HOSTS

MANIFEST_SCHEMA = "kernelforge.manifest/1"
PROFILE_SCHEMA = "kernelforge.device/1"

# Deployment and profile names become file names, also on file systems that ignore case.
NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,78}[a-z0-9])?")
_KERNEL = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)

# The kind of error that carries our own words through pydantic.
WORDED = "worded"


def _worded(what: str, hint: str) -> PydanticCustomError:
    return PydanticCustomError(WORDED, "{what}", {"what": what, "hint": hint})


def _one_of(*known: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in known:
            raise _worded(f"{value!r} is not supported", did_you_mean(value, known))
        return value

    return AfterValidator(check)


def _this_schema(known: str) -> AfterValidator:
    def check(value: str) -> str:
        if value != known:
            raise _worded(f"{value!r} is not a format that this version reads", f"write {known}")
        return value

    return AfterValidator(check)


def _check_name(value: str) -> str:
    if NAME.fullmatch(value) is None:
        hint = "a name is a file name: a-z, 0-9, dot, dash and underscore inside, at most 80 characters"
        hint = f"did you mean {value.lower()}?" if NAME.fullmatch(value.lower()) else hint
        raise _worded(f"{value[:100]!r} is not a usable name", hint)
    return value


def _check_kernel(value: str) -> str:
    if _KERNEL.fullmatch(value) is None:
        module, _, name = value.rpartition(".")
        dotted = f"{module}:{name}"
        hint = (
            f"did you mean {dotted}?"
            if _KERNEL.fullmatch(dotted) and name[0].isupper()
            else "write package.module:ClassName"
        )
        raise _worded(f"{value!r} does not name a kernel class", hint)
    return value


Name = Annotated[str, AfterValidator(_check_name)]
PositiveInt = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """Base: unknown keys are refused, and values are taken as they are."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ManifestSection(Section):
    schema_name: Annotated[str, _this_schema(MANIFEST_SCHEMA)] = Field(alias="schema", examples=[MANIFEST_SCHEMA])
    name: Name = Field(examples=["qwen3-8b"])
    model: dict[str, Any] = Field(default={}, examples=["{config: ../models/qwen3-8b.json}"])
    engine: dict[str, Any] = Field(default={}, examples=["{tensor_parallel_size: 1}"])
    targets: list[Any] = Field(min_length=1, examples=["[h200-sxm, b200]"])
    host: Annotated[str, _one_of(*HOSTS)] = HOSTS[0]
    cuda: Annotated[str, _one_of(*CUDA_FLAVOURS)] = "cu13"
    kernels: list[Any] = Field(min_length=1, examples=["[{kernel: 'package.module:ClassName', arguments: {...}}]"])


class EngineSection(Section):
    """What the serving engine is started with, under vLLM's names: only what kernels depend on."""

    tensor_parallel_size: PositiveInt = 1
    max_num_batched_tokens: PositiveInt | None = None
    max_num_seqs: PositiveInt | None = None
    dtype: Annotated[str, _one_of("bfloat16", "float16", "float32")] | None = None
    kv_cache_dtype: Annotated[str, _one_of("bfloat16", "float16", "fp8_e4m3", "fp8_e5m2")] | None = None


class KernelSection(Section):
    kernel: Annotated[str, AfterValidator(_check_kernel)] = Field(examples=["package.module:ClassName"])
    arguments: dict[str, Any] = Field(default={}, examples=["{head_dim: 128}"])


class ProfileSection(Section):
    schema_name: Annotated[str, _this_schema(PROFILE_SCHEMA)] = Field(alias="schema", examples=[PROFILE_SCHEMA])
    name: Name = Field(examples=["h200-sxm"])
    arch: Any = Field(examples=["sm_90a"])
    facts: dict[str, Any] = Field(examples=["{num_sms: {value: 132, source: where it is stated}}"])


class FactSection(Section):
    value: Any = Field(examples=["132"])
    source: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] = Field(
        examples=["measured on the card, driver 580"]
    )
