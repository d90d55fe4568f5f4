"""Turns a Hugging Face config.json, or the same fields written in a manifest, into a typed description of the model.

What the config does not say stays unknown, with the reason, so that nothing is guessed: a ``head_dim`` is computed only
where it is absent and the model has ordinary attention heads. It does not know which kernels want which field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelforge.manifest.problems import Place, Problems, did_you_mean
from kernelforge.manifest.yaml_node import Node

_SIZES = {
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_hidden_layers": "num_hidden_layers",
    "q_heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
}
_DTYPE_KEYS = ("dtype", "torch_dtype")
# Latent attention (DeepSeek's MLA): heads have a nope, a rope and a value size; hidden_size / heads is none of them.
_LATENT_KEYS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim")
# Keys of a config.json that are read; inline fields of a manifest may have these and no others.
CONFIG_KEYS = ("architectures", "model_type", *_SIZES.values(), "rms_norm_eps", *_DTYPE_KEYS)


@dataclass(frozen=True)
class ModelConfig:
    """What a config says about a model, ``None`` where it says nothing. Sizes are of the whole model, not per rank."""

    architectures: tuple[str, ...] = ()
    model_type: str | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    num_hidden_layers: int | None = None
    q_heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    rms_norm_eps: float | None = None
    dtype: str | None = None
    vocab_size: int | None = None


MODEL_FIELDS = tuple(each.name for each in dataclasses.fields(ModelConfig) if each.name != "architectures")


@dataclass(frozen=True)
class ConfigFields:
    """The fields of a config as they were written, and where: ``place_of("text_config", "hidden_size")``."""

    values: Mapping[str, Any]
    place_of: Callable[..., Place]


@dataclass
class ModelReading:
    """``config``, where each field comes from, why a field has no value, and which were reported as wrong."""

    config: ModelConfig = ModelConfig()
    origins: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)


def inline_fields(node: Node, problems: Problems) -> ConfigFields | None:
    """The fields of a manifest's ``model`` mapping; None if one was refused, so that the model is unknown."""
    for key, child in node.entries.items():
        if key not in CONFIG_KEYS:
            hint = f"did you mean {_SIZES[key]}?" if key in _SIZES else did_you_mean(key, ("config", *CONFIG_KEYS))
            problems.add(child.key_place, f"model.{key} is not a known key", hint=hint)
    if any(child.refused for child in node.entries.values()):
        return None
    return ConfigFields(node.data(), lambda *path: node.entries[path[0]].place)


def read_model(fields: ConfigFields, problems: Problems) -> ModelReading:
    """Read a config. In one with a nested ``text_config`` sizes come from there, and only from there."""
    reader = _Reader(fields, problems)
    reader.texts()
    for name, key in _SIZES.items():
        reader.take(name, key, _size)
    reader.take("rms_norm_eps", "rms_norm_eps", _epsilon)
    reader.dtype()
    reader.computed_head_dim()
    reader.reading.config = ModelConfig(**reader.known)
    return reader.reading


class _Reader:
    def __init__(self, fields: ConfigFields, problems: Problems) -> None:
        nested = fields.values.get("text_config")
        self._outer = fields.values
        self._sizes: Mapping[str, Any] = nested if isinstance(nested, Mapping) else fields.values
        self._prefix = ("text_config",) if isinstance(nested, Mapping) else ()
        self._place_of = fields.place_of
        self._problems = problems
        self.known: dict[str, Any] = {}
        self.reading = ModelReading()

    def texts(self) -> None:
        self._check("model_type", "model_type", self._outer.get("model_type"), _text, ())
        self._check("architectures", "architectures", self._outer.get("architectures"), _texts, ())

    def take(self, name: str, key: str, convert: Callable[[Any], Any]) -> None:
        self._check(name, key, self._sizes.get(key), convert, self._prefix)

    def dtype(self) -> None:
        given = {(self._prefix, key): self._sizes[key] for key in _DTYPE_KEYS if self._sizes.get(key) is not None}
        given = given or {((), key): self._outer[key] for key in _DTYPE_KEYS if self._outer.get(key) is not None}
        if len(set(map(str, given.values()))) > 1:
            what = "dtype and torch_dtype differ: " + ", ".join(map(str, given.values()))
            self._problems.add(self._place_of(*self._prefix, "dtype"), what, hint="delete the wrong one")
            self.reading.broken.add("dtype")
            return
        (prefix, key), value = next(iter(given.items()), (((), "torch_dtype"), None))
        self._check("dtype", key, value, _dtype, prefix)
        if value is None:
            self.reading.absent["dtype"] = "the config has neither dtype nor torch_dtype"

    def computed_head_dim(self) -> None:
        """``hidden_size / num_attention_heads``, as transformers computes it where ``head_dim`` is absent."""
        if "head_dim" not in self.reading.absent or not {"hidden_size", "q_heads"} <= set(self.known):
            return
        hidden_size, q_heads = self.known["hidden_size"], self.known["q_heads"]
        latent = [key for key in _LATENT_KEYS if self._sizes.get(key) is not None]
        if latent:
            self.reading.absent["head_dim"] = (
                f"the config has no head_dim, and {latent[0]} shows that its heads have several"
            )
        elif hidden_size % q_heads:
            reason = f"hidden_size / num_attention_heads = {hidden_size} / {q_heads} is not a whole number"
            self.reading.absent["head_dim"] = f"the config has no head_dim, and {reason}"
        else:
            del self.reading.absent["head_dim"]
            self.known["head_dim"] = hidden_size // q_heads
            self.reading.origins["head_dim"] = f"{hidden_size} / {q_heads} heads, {self.reading.origins['hidden_size']}"

    def _check(
        self, name: str, key: str, value: object, convert: Callable[[Any], Any], prefix: tuple[str, ...]
    ) -> None:
        if value is None:
            self.reading.absent[name] = f"the config has no {'.'.join((*prefix, key))}"
            return
        place = self._place_of(*prefix, key)
        try:
            self.known[name] = convert(value)
            self.reading.origins[name] = str(place)
        except ValueError as error:
            self.reading.broken.add(name)
            self._problems.add(place, f"{key} is {str(value)[:60]!r}", hint=f"it must be {error}")


def _size(value: object) -> int:
    if type(value) is not int or not 0 < value < 1 << 63:
        raise ValueError("a whole number above 0, of at most 64 bits")
    return value


def _epsilon(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1 << 63:
        raise ValueError("a number above 0")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError("text")
    return value


def _dtype(value: object) -> str:
    return _text(value).removeprefix("torch.")


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("a list of names")
    return tuple(_text(item) for item in value)
