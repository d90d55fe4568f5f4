"""Finds and reads device profiles, ``kernelforge.device/1``: the facts about one GPU product, each with its source.

    schema: kernelforge.device/1
    name: h200-sxm                       # the file's name without .yaml
    arch: sm_90a
    facts:
      num_sms: {value: 132, source: "measured on the card, driver 580"}

Which facts there are is ``kernelforge.device``'s knowledge. It asks no driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import kernelforge
from kernelforge.device import FACTS, DeviceProfile, Fact
from kernelforge.errors import InputError, TargetError
from kernelforge.manifest.problems import Problems, did_you_mean
from kernelforge.manifest.schema import NAME, FactSection, ProfileSection
from kernelforge.manifest.section import check_section
from kernelforge.manifest.yaml_node import Node, read_yaml
from kernelforge.target import check_arch

_ARCHITECTURE = re.compile(r"(?i:sm_?|compute_?)?[0-9]+(\.[0-9])?[a-zA-Z]?")


def profiles_folder() -> Path:
    """Where the package keeps its profiles: inside an installed package, beside it in a source checkout."""
    package = Path(kernelforge.__file__).parent
    installed = package / "specs" / "devices"
    return installed if installed.is_dir() else package.parent / "specs" / "devices"


def profile_names() -> list[str]:
    """Names of the package's own profiles, sorted."""
    return sorted(path.stem for path in profiles_folder().glob("*.yaml"))


def find_profile(name_or_path: str, beside: Path) -> Path:
    """The file of a profile that a manifest in the folder ``beside`` names.

    A path (it has a slash or ends in ``.yaml``) is relative to ``beside`` and is returned unseen. A name is looked for
    in ``beside/devices``, then among the package's own, so that a deployment can correct a profile. Raises
    ``InputError`` for a name that is nowhere.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return beside / name_or_path
    for folder in (beside / "devices", profiles_folder()) if NAME.fullmatch(name_or_path) else ():
        path = folder / f"{name_or_path}.yaml"
        if path.is_file():
            return path
    raise InputError(f"there is no device profile {name_or_path!r}", hint=_nearest_profile(name_or_path, beside))


def load_profile(path: Path) -> DeviceProfile:
    """Read one profile; ``ManifestError`` carries everything that is wrong with it."""
    problems = Problems(str(path))
    node = read_yaml(path, problems)
    profile = read_profile(node, path, problems) if node else None
    if profile is None or len(problems):
        raise problems.error()
    return profile


def read_profile(node: Node, path: Path, problems: Problems) -> DeviceProfile | None:
    """The profile in a YAML document, or None after adding problems."""
    before = len(problems)
    section = check_section(ProfileSection, node, problems, subject="")
    name, arch = section.values.get("name"), section.values.get("arch")
    if name is not None and name != path.stem:
        problems.add(
            node.entries["name"].place, f"the profile {name} is in {path.name}", hint=f"rename it to {name}.yaml"
        )
    if "arch" in section.values:
        try:
            check_arch(arch)
        except TargetError as error:
            problems.add(node.entries["arch"].place, error.problem, hint=error.hint)
    facts = _read_facts(node.entries["facts"], problems) if "facts" in section.values else {}
    is_sound = not section.broken and len(problems) == before
    return DeviceProfile(str(name), str(arch), facts) if is_sound else None


def _read_facts(node: Node, problems: Problems) -> Mapping[str, Fact]:
    facts: dict[str, Fact] = {}
    for name, child in sorted(node.entries.items()):
        if name not in FACTS:
            problems.add(child.key_place, f"{name} is no fact that a profile can state", hint=did_you_mean(name, FACTS))
            continue
        section = check_section(FactSection, child, problems, subject=f"facts.{name}")
        if section.broken:
            continue
        value = section.values["value"]
        kind, meaning = FACTS[name]
        is_valid, form = _FORMS[kind]
        if not is_valid(value):
            place = child.entries["value"].place
            problems.add(place, f"facts.{name} is {value!r}", hint=f"it must be {form}: {meaning}")
            continue
        facts[name] = Fact(tuple(value) if isinstance(value, list) else value, section.values["source"])
    return facts


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _are_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def _are_counts_by_size(value: object) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return all(size.isdecimal() and _is_count(count) for size, count in value.items())


_FORMS: dict[type, tuple[Callable[[object], bool], str]] = {
    int: (_is_count, "a whole number above 0"),
    tuple: (_are_names, "a list of texts"),
    dict: (_are_counts_by_size, 'a mapping such as {"1": 132, "2": 66}'),
}


def _nearest_profile(name: str, beside: Path) -> str:
    names = {*profile_names(), *(path.stem for path in (beside / "devices").glob("*.yaml"))}
    if _ARCHITECTURE.fullmatch(name):
        return f"targets are device profiles, which know their architecture: {', '.join(sorted(names))}"
    return did_you_mean(name, names)
