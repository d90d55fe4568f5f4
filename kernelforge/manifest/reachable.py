"""What ``{from: model.head_dim}`` can reach: named values of the model and of the engine, each with its origin.

The values per tensor-parallel rank are computed here. It does not know which kernels use them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelforge.manifest.model_config import MODEL_FIELDS, ModelReading
from kernelforge.manifest.problems import Place, Problems, did_you_mean
from kernelforge.manifest.schema import EngineSection
from kernelforge.manifest.section import Checked
from kernelforge.manifest.yaml_node import Node
from kernelforge.manifest.yaml_scalar import Scalar

_PATHS = (
    *(f"model.{name}" for name in MODEL_FIELDS),
    "model.q_heads_per_rank",
    "model.kv_heads_per_rank",
    *(f"engine.{name}" for name in EngineSection.model_fields),
)


@dataclass
class Reachable:
    """``values`` and ``origins`` by path (``engine.dtype``); ``absent``: paths without a value, and why.

    A path that is in none of them has a problem that was reported where it stands.
    """

    values: dict[str, Scalar] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, value: Scalar, origin: str) -> None:
        self.values[path] = value
        self.origins[path] = f"{path} = {value} {origin}"

    def section(self, name: str) -> dict[str, Scalar]:
        """The values of ``model`` or of ``engine``, sorted by name."""
        return {
            path.partition(".")[2]: self.values[path] for path in sorted(self.values) if path.startswith(f"{name}.")
        }

    def has(self, path: str, place: Place, problems: Problems) -> bool:
        """Whether ``path`` has a value; if not, add a problem unless its cause was reported already."""
        if path in self.absent:
            hint = f"write the value here, or add it to {path.partition('.')[0]}"
            problems.add(place, f"{path} has no value: {self.absent[path]}", hint=hint)
        elif path not in _PATHS:
            problems.add(place, f"from: {path} names no value", hint=did_you_mean(path, _PATHS))
        return path in self.values


def reachable(model: ModelReading | None, engine: Checked, engine_node: Node, problems: Problems) -> Reachable:
    """Join both sections; ``model`` is None where its config could not be read."""
    reach = Reachable()
    places = {key: node.place for key, node in engine_node.entries.items()}
    for name, value in engine.values.items():
        if value is None:
            reach.absent[f"engine.{name}"] = "the engine settings do not have it"
        else:
            reach.add(f"engine.{name}", value, f"({places[name]})" if name in places else "(the default)")
    if model is not None:
        for name in MODEL_FIELDS:
            if name in model.absent:
                reach.absent[f"model.{name}"] = model.absent[name]
            elif name not in model.broken:
                reach.add(f"model.{name}", getattr(model.config, name), f"({model.origins[name]})")
        _add_heads_per_rank(reach, model, places.get("tensor_parallel_size"), problems)
    return reach


def _add_heads_per_rank(reach: Reachable, model: ModelReading, tp_place: Place | None, problems: Problems) -> None:
    """Query heads are split; key/value heads are split, and replicated where there are more ranks than heads."""
    ranks = reach.values.get("engine.tensor_parallel_size")
    for name, words in (("q_heads", "query heads"), ("kv_heads", "key/value heads")):
        heads, per_rank = reach.values.get(f"model.{name}"), f"model.{name}_per_rank"
        if f"model.{name}" in reach.absent:
            reach.absent[per_rank] = reach.absent[f"model.{name}"]
        elif isinstance(heads, int) and isinstance(ranks, int):
            if heads % ranks == 0:
                reach.add(per_rank, heads // ranks, f"({heads} / tensor_parallel_size {ranks}, {model.origins[name]})")
            elif name == "kv_heads" and ranks % heads == 0:
                replicated = f"({heads} replicated over tensor_parallel_size {ranks}, {model.origins[name]})"
                reach.add(per_rank, 1, replicated)
            elif tp_place:  # without it the size is 1, which divides everything
                arithmetic = f"{heads} / {ranks} = {heads / ranks:.2f}"
                what = f"tensor_parallel_size {ranks} does not fit the model's {heads} {words}: {arithmetic}"
                fitting = ", ".join(str(size) for size in range(1, min(heads, 256) + 1) if heads % size == 0)
                problems.add(tp_place, what, hint=f"{heads} heads can be split over {fitting} ranks")
