"""Everything under specs/ loads, and says where its facts come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelforge.device import FACTS
from kernelforge.manifest import load_manifest, load_profile, profile_names, profiles_folder
from kernelforge.manifest.model_config import MODEL_FIELDS
from kernelforge.manifest.schema import EngineSection

SPECS = Path(__file__).parents[2] / "specs"
DEPLOYMENTS = sorted((SPECS / "deployments").glob("*.yaml"))
MODELS = sorted((SPECS / "models").glob("*.json"))


def test_the_profiles_that_are_promised_are_there() -> None:
    assert {"b200", "b300", "gb200", "h100-pcie", "h100-sxm", "h200-sxm"} <= set(profile_names())
    assert profiles_folder() == SPECS / "devices"


@pytest.mark.parametrize("name", profile_names())
def test_a_profile_states_the_facts_that_kernels_ask_for(name: str) -> None:
    profile = load_profile(profiles_folder() / f"{name}.yaml")
    assert {"num_sms", "shared_memory_per_block_bytes", "registers_per_sm", "driver_names"} <= set(profile.facts)
    assert profile.shared_memory_per_block_bytes < profile.shared_memory_per_sm_bytes
    for fact in profile.facts.values():
        # "datasheet" or "internet" would be no source: a document has a title, a measurement a driver or a log.
        assert len(fact.source.split()) >= 4, fact


@pytest.mark.parametrize(
    ("name", "arch", "num_sms"),
    [
        ("h100-sxm", "sm_90a", 132),
        ("h100-pcie", "sm_90a", 114),
        ("h200-sxm", "sm_90a", 132),
        ("b200", "sm_100a", 148),
        ("gb200", "sm_100a", 152),
        ("b300", "sm_103a", 148),
    ],
)
def test_architectures_and_sm_counts(name: str, arch: str, num_sms: int) -> None:
    """A wrong SM count builds kernels that run and are slow."""
    profile = load_profile(profiles_folder() / f"{name}.yaml")
    assert (profile.arch, profile.num_sms) == (arch, num_sms)


def test_clusters_of_the_h200_are_the_measured_ones() -> None:
    """132 SMs / 4 = 33 clusters of four; the card holds 30."""
    profile = load_profile(profiles_folder() / "h200-sxm.yaml")
    assert profile.max_active_clusters == {"1": 132, "2": 66, "4": 30, "8": 15, "16": 7}


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=lambda path: path.stem)
def test_a_deployment_is_named_as_its_file(path: Path) -> None:
    assert load_manifest(path).name == path.stem


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_model_config_is_read(path: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "demo.yaml"
    head = "schema: kernelforge.manifest/1\nname: demo\ntargets: [h200-sxm]\n"
    manifest.write_text(f"{head}kernels: [{{kernel: 'package.module:Kernel'}}]\nmodel: {{config: {path}}}\n")
    model = load_manifest(manifest).model
    assert {"hidden_size", "q_heads", "kv_heads", "q_heads_per_rank", "kv_heads_per_rank", "vocab_size"} <= set(model)


def test_qwen3_8b_asks_for_both_kernels_on_both_devices() -> None:
    deployment = load_manifest(SPECS / "deployments" / "qwen3-8b.yaml")
    assert [each.profile.name for each in deployment.targets] == ["h200-sxm", "b200"]
    assert [str(each.target) for each in deployment.targets] == [
        "sm_90a/x86_64-linux-gnu/cu13",
        "sm_100a/x86_64-linux-gnu/cu13",
    ]
    arguments = {request.kernel.rpartition(":")[2]: request.to_json()["arguments"] for request in deployment.requests}
    tokens = {"range": {"start": 1, "stop": 8193, "step": 1}}
    common = {"tokens": tokens, "dtype": "bfloat16", "eps": 1e-06, "weight_offset": 0.0}
    assert arguments == {
        "QkNorm": {**common, "head_dim": 128, "q_heads": 32, "kv_heads": 8},
        "RmsNorm": {**common, "hidden": 4096, "has_residual": {"choices": [False, True]}},
    }


def test_the_readme_names_every_setting_field_and_fact() -> None:
    """A README that lags behind the reader sends people to settings that are refused."""
    words = set((SPECS / "README.md").read_text().replace("`", " ").replace(":", " ").split())
    assert {*EngineSection.model_fields, *MODEL_FIELDS, "q_heads_per_rank", "kv_heads_per_rank", *FACTS} <= words
