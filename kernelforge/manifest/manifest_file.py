"""Reads a deployment manifest, ``kernelforge.manifest/1``: what a human asks to be built.

    schema: kernelforge.manifest/1
    name: qwen3-8b                                # names the lockfile
    model: {config: ../models/qwen3-8b.json}      # a config.json, or its fields inline: {hidden_size: 4096, ...}
    engine: {tensor_parallel_size: 1, max_num_batched_tokens: 8192, dtype: bfloat16}
    targets: [h200-sxm, b200]                     # device profiles: names, or paths of YAML files
    host: x86_64-linux-gnu                        # optional, as is `cuda: cu13`
    kernels:
      - kernel: kernelforge.kernels.rms_norm:RmsNorm
        arguments:
          tokens: {range: [1, {from: engine.max_num_batched_tokens}]}     # both ends are included
          hidden: {from: model.hidden_size}
          has_residual: {choices: [false, true]}
          eps: 1.0e-6

Paths are relative to the manifest. The order of keys never matters. Whether a kernel exists and takes these arguments
is found out by ``keys``, which can import it.
"""

from __future__ import annotations

import json
import keyword
import math
from pathlib import Path

from kernelforge.contract import Choices, IntRange
from kernelforge.errors import InputError
from kernelforge.manifest.argument import Resolved, read_argument
from kernelforge.manifest.deployment import Deployment, DeploymentTarget
from kernelforge.manifest.devices import find_profile, profile_names, read_profile
from kernelforge.manifest.json_object import read_json_object
from kernelforge.manifest.model_config import MODEL_FIELDS, ConfigFields, ModelReading, inline_fields, read_model
from kernelforge.manifest.problems import Place, Problems
from kernelforge.manifest.reachable import Reachable, reachable
from kernelforge.manifest.schema import EngineSection, KernelSection, ManifestSection
from kernelforge.manifest.section import Checked, check_section, describe
from kernelforge.manifest.yaml_node import Node, read_yaml
from kernelforge.request import Argument, KernelRequest
from kernelforge.target import Target

# Twenty times the largest expansion that we know of; a plan of so many points takes about half a minute.
_POINT_LIMIT = 1 << 24


def load_manifest(path: Path) -> Deployment:
    """Read a manifest and the files that it names; ``ManifestError`` carries everything that is wrong with them."""
    problems = Problems(str(path))
    node = read_yaml(path, problems)
    if node is None:
        raise problems.error()
    manifest = check_section(ManifestSection, node, problems, subject="")
    reach = _read_reachable(manifest, node, path.parent, problems)
    targets = _read_targets(manifest, node, path.parent, problems)
    requests = _read_requests(manifest, node, reach, problems)
    if len(problems):
        raise problems.error()
    return Deployment(
        name=manifest.values["name"],
        targets=targets,
        requests=requests,
        model=reach.section("model"),
        engine=reach.section("engine"),
        path=path,
    )


def _read_reachable(manifest: Checked, node: Node, folder: Path, problems: Problems) -> Reachable:
    engine_node = node.entries.get("engine", Node(node.place, value={}))
    model = _read_model(node.entries.get("model"), folder, problems) if "model" in manifest.values else None
    if "engine" in manifest.values:
        engine = check_section(EngineSection, engine_node, problems, subject="engine")
    else:
        engine = Checked({}, frozenset(EngineSection.model_fields))
    return reachable(model, engine, engine_node, problems)


def _read_model(node: Node | None, folder: Path, problems: Problems) -> ModelReading | None:
    """None where the model's fields are unknown because of problems."""
    if node is None:
        return ModelReading(absent=dict.fromkeys(MODEL_FIELDS, "the manifest names no model"))
    config = node.entries.get("config")
    if config is None:
        fields = inline_fields(node, problems)
        return read_model(fields, problems) if fields else None
    for name, child in node.entries.items():
        if name != "config":
            problems.add(child.key_place, f"model.{name} stands beside model.config", hint="delete one of them")
    if not isinstance(config.value, str):
        if not config.refused:
            problems.add(
                config.place,
                f"model.config must be text, not {describe(config)}",
                hint="give the path of a config.json",
            )
        return None
    found = read_json_object(folder / config.value, problems, named_at=config.place)
    return read_model(ConfigFields(found.fields, found.place_of), problems) if found else None


def _read_targets(manifest: Checked, node: Node, folder: Path, problems: Problems) -> tuple[DeploymentTarget, ...]:
    targets: dict[str, DeploymentTarget] = {}
    lines: dict[str, int] = {}
    for item in node.entries["targets"].items if "targets" in manifest.values else ():
        file = _profile_file(item, folder, problems)
        document = read_yaml(file, problems, named_at=item.place) if file else None
        profile = read_profile(document, file, problems) if file and document else None
        if profile is None:
            continue
        if profile.name in targets:
            what = f"the target {profile.name} is given twice, first in line {lines[profile.name]}"
            problems.add(item.place, what, hint="delete one of them")
            continue
        platform = {key: manifest.values[key] for key in ("host", "cuda") if key in manifest.values}
        targets[profile.name] = DeploymentTarget(profile, Target(profile.arch, **platform))
        lines[profile.name] = item.place.line
    return tuple(targets.values())


def _profile_file(item: Node, folder: Path, problems: Problems) -> Path | None:
    if item.refused:
        return None
    if not isinstance(item.value, str):
        hint = f"targets are device profiles: {', '.join(profile_names())}"
        problems.add(item.place, f"a target must be text, not {describe(item)}", hint=hint)
        return None
    try:
        return find_profile(item.value, folder)
    except InputError as error:
        problems.add(item.place, error.problem, hint=error.hint)
        return None


def _read_requests(manifest: Checked, node: Node, reach: Reachable, problems: Problems) -> tuple[KernelRequest, ...]:
    requests: dict[str, KernelRequest] = {}
    for index, item in enumerate(node.entries["kernels"].items if "kernels" in manifest.values else ()):
        request = _read_request(item, f"kernels[{index}]", reach, problems)
        if request is None:
            continue
        # Compared as JSON, because 1, 1.0 and true are equal in Python and three values here.
        text = json.dumps(request.to_json())
        if text in requests:
            what = f"kernels[{index}] asks for the same as line {requests[text].line}"
            problems.add(item.place, what, hint="delete one of them")
        requests.setdefault(text, request)
    return tuple(requests.values())


def _read_request(item: Node, subject: str, reach: Reachable, problems: Problems) -> KernelRequest | None:
    before = len(problems)
    section = check_section(KernelSection, item, problems, subject=subject)
    arguments: dict[str, Resolved] = {}
    written = item.entries.get("arguments")
    for name, child in written.entries.items() if written else ():
        if not name.isidentifier() or keyword.iskeyword(name):
            problems.add(child.key_place, f"{name!r} cannot be the name of an argument", hint="write it as in Python")
        resolved = read_argument(child, reach, problems, name=name)
        if resolved is not None:
            arguments[name] = resolved
    _check_points(arguments, written.place if written else item.place, problems)
    if section.broken or len(problems) > before:
        return None
    return KernelRequest(
        kernel=section.values["kernel"],
        arguments={name: resolved.value for name, resolved in arguments.items()},
        line=item.place.line,
        origins={name: resolved.origin for name, resolved in arguments.items()},
    )


def _check_points(arguments: dict[str, Resolved], place: Place, problems: Problems) -> None:
    lengths = {name: _length(each.value) for name, each in arguments.items()}
    points = math.prod(lengths.values())
    if points > _POINT_LIMIT:
        arithmetic = " x ".join(f"{length:,} {name}" for name, length in sorted(lengths.items()) if length > 1)
        problems.add(place, f"{arithmetic} = {points:,} points", hint=f"the most is {_POINT_LIMIT:,}: narrow a range")


def _length(value: Argument) -> int:
    if isinstance(value, IntRange):
        # len() cannot count beyond 63 bits.
        return (value.stop - value.start - 1) // value.step + 1
    return len(value) if isinstance(value, Choices) else 1
