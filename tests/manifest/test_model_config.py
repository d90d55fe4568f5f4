"""Model configs: read as Hugging Face writes them, nothing guessed, every fault with its file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernelforge.errors import ManifestError
from kernelforge.manifest import load_manifest

MODELS = Path(__file__).parents[2] / "specs" / "models"
MANIFEST = """\
schema: kernelforge.manifest/1
name: demo
model: {config: config.json}
targets: [h200-sxm]
kernels:
- kernel: package.module:Kernel
"""
LLAMA = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "torch_dtype": "bfloat16"}


def model_of(folder: Path, config: str | dict[str, Any], engine: str = "{}") -> dict[str, Any]:
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config, indent=1))
    path = folder / "demo.yaml"
    path.write_text(MANIFEST.replace("targets", f"engine: {engine}\ntargets"))
    return dict(load_manifest(path).model)


def problems_of(folder: Path, config: str | dict[str, Any]) -> list[tuple[str, int, str]]:
    with pytest.raises(ManifestError) as caught:
        model_of(folder, config)
    return [(Path(problem.file).name, problem.line, problem.what) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("name", "ranks", "expected"),
    [
        ("qwen3-8b", 1, {"q_heads_per_rank": 32, "kv_heads_per_rank": 8, "head_dim": 128, "hidden_size": 4096}),
        ("qwen3-32b", 4, {"q_heads_per_rank": 16, "kv_heads_per_rank": 2, "head_dim": 128, "hidden_size": 5120}),
        ("llama-3.3-70b-instruct", 8, {"q_heads_per_rank": 8, "kv_heads_per_rank": 1, "head_dim": 128}),
        ("qwen3-30b-a3b", 8, {"q_heads_per_rank": 4, "kv_heads_per_rank": 1, "head_dim": 128, "hidden_size": 2048}),
        ("gpt-oss-120b", 2, {"q_heads_per_rank": 32, "kv_heads_per_rank": 4, "head_dim": 64, "rms_norm_eps": 1e-5}),
        ("qwen3-embedding-0.6b", 1, {"q_heads_per_rank": 16, "head_dim": 128, "hidden_size": 1024}),
        ("deepseek-v4-flash", 1, {"head_dim": 512, "kv_heads": 1}),
    ],
)
def test_numbers_checked_by_hand(tmp_path: Path, name: str, ranks: int, expected: dict[str, Any]) -> None:
    config = (MODELS / f"{name}.json").read_text()
    found = model_of(tmp_path, config, f"{{tensor_parallel_size: {ranks}}}")
    assert {field: found[field] for field in expected} == expected


def test_a_given_head_dim_is_never_recomputed(tmp_path: Path) -> None:
    """Qwen3-32B: 5120 / 64 = 80, and its head_dim is 128."""
    assert model_of(tmp_path, {**LLAMA, "head_dim": 96})["head_dim"] == 96


@pytest.mark.parametrize("absent", [{}, {"head_dim": None}], ids=["not there", "null"])
def test_an_absent_head_dim_is_hidden_size_over_heads(tmp_path: Path, absent: dict[str, Any]) -> None:
    assert model_of(tmp_path, {**LLAMA, **absent})["head_dim"] == 128


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({**LLAMA, "kv_lora_rank": 512}, "kv_lora_rank shows that its heads have several"),
        ({**LLAMA, "hidden_size": 100}, "100 / 32 is not a whole number"),
        ({"hidden_size": 4096}, "the config has no head_dim"),
        ({"num_attention_heads": 32}, "the config has no head_dim"),
    ],
)
def test_a_head_dim_that_cannot_be_known_stays_unknown(tmp_path: Path, config: dict[str, Any], reason: str) -> None:
    """DeepSeek's hidden_size / heads = 56 is the size of nothing in that model."""
    assert "head_dim" not in model_of(tmp_path, config)
    path = tmp_path / "demo.yaml"
    path.write_text(MANIFEST + "  arguments: {head_dim: {from: model.head_dim}}\n")
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    assert reason in caught.value.problems[0].what


def test_sizes_come_from_a_nested_text_config_alone(tmp_path: Path) -> None:
    """In a multi-modal config the outer sizes can be those of another part."""
    nested = {"hidden_size": 2560, "num_attention_heads": 8, "dtype": "float16"}
    outer = {"model_type": "gemma3", "hidden_size": 1152, "num_key_value_heads": 4, "architectures": ["A"]}
    found = model_of(tmp_path, {**outer, "text_config": nested})
    expected = {"model_type": "gemma3", "hidden_size": 2560, "q_heads": 8, "head_dim": 320, "dtype": "float16"}
    assert found == {**expected, "q_heads_per_rank": 8}


def test_the_dtype_of_the_outer_config_counts_where_the_nested_one_has_none(tmp_path: Path) -> None:
    found = model_of(tmp_path, {"torch_dtype": "torch.bfloat16", "text_config": {"hidden_size": 64}})
    assert found == {"hidden_size": 64, "dtype": "bfloat16"}


def test_an_integer_epsilon_is_a_float(tmp_path: Path) -> None:
    """1 and 1.0 are two keys; a config's spelling must not choose between them."""
    value = model_of(tmp_path, {"rms_norm_eps": 1})["rms_norm_eps"]
    assert (value, type(value)) == (1.0, float)


def test_unknown_fields_of_a_config_are_ignored(tmp_path: Path) -> None:
    assert model_of(tmp_path, {**LLAMA, "use_cache": True})["q_heads"] == 32


def test_faults_are_found_in_their_line_of_the_config(tmp_path: Path) -> None:
    config = """\
{
 "architectures": "LlamaForCausalLM",
 "hidden_size": -1,
 "num_attention_heads": true,
 "rms_norm_eps": "1e-6",
 "quantization_config": {"hidden_size": 7},
 "dtype": "float16",
 "torch_dtype": "bfloat16"
}
"""
    assert problems_of(tmp_path, config) == [
        ("config.json", 2, "architectures is 'LlamaForCausalLM'"),
        ("config.json", 3, "hidden_size is '-1'"),
        ("config.json", 4, "num_attention_heads is 'True'"),
        ("config.json", 5, "rms_norm_eps is '1e-6'"),
        ("config.json", 7, "dtype and torch_dtype differ: float16, bfloat16"),
    ]


def test_a_fault_in_the_nested_config_is_not_shown_in_the_outer_one(tmp_path: Path) -> None:
    config = '{\n "hidden_size": 1,\n "text_config": {\n  "hidden_size": 0\n }\n}'
    assert problems_of(tmp_path, config) == [("config.json", 4, "hidden_size is '0'")]


@pytest.mark.parametrize(
    ("config", "line", "what"),
    [
        ('{\n "a": 1,\n "a": 2\n}', 3, "a is given twice"),
        ('{"x": [\n {"a": 1},\n {"a": 1,\n  "a": 2}]}', 4, "a is given twice"),
        ('{\n "hidden_size": NaN\n}', 1, "NaN is no JSON number"),
        ('{\n "hidden_size": -Infinity\n}', 1, "-Infinity is no JSON number"),
        ('{\n "rms_norm_eps": 1e999\n}', 2, "rms_norm_eps is 'inf'"),
        ('{\n "a": 1,\n}', 3, "not valid JSON"),
        ("[1]", 1, "not a JSON object"),
        ('"text"', 1, "not a JSON object"),
        ("[" * 200_000, 1, "not valid JSON"),
        (f'{{"hidden_size": {"9" * 5000}}}', 1, "not valid JSON"),
        ("  \n", 1, "the file is empty"),
        (f'{{"a": "{"x" * (4 * 1024 * 1024)}"}}', 1, "larger than 4,194,304 bytes"),
    ],
)
def test_json_that_is_no_plain_object(tmp_path: Path, config: str, line: int, what: str) -> None:
    ((file, found_line, found),) = problems_of(tmp_path, config)
    assert (file, found_line, what in found) == ("config.json", line, True), found


def test_keys_and_brackets_inside_strings_do_not_shift_lines(tmp_path: Path) -> None:
    config = '{\n "note": "\\"hidden_size\\": {[ \\\\",\n "list": ["hidden_size", {"a": [1, 2]}],\n "hidden_size": 0\n}'
    assert problems_of(tmp_path, config) == [("config.json", 4, "hidden_size is '0'")]


def test_a_missing_config_is_reported_where_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(MANIFEST)
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(path), 3)
    assert problem.what == f"{tmp_path / 'config.json'} does not exist"


@pytest.mark.parametrize("size", [10**400, 1 << 63])
def test_sizes_beyond_64_bits_are_refused(tmp_path: Path, size: int) -> None:
    ((_, line, what),) = problems_of(tmp_path, {"num_attention_heads": size})
    assert (line, what[:19]) == (2, "num_attention_heads")


def test_a_huge_head_count_does_not_stall_the_hint(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="does not fit"):
        model_of(tmp_path, {"num_attention_heads": (1 << 62) + 1}, "{tensor_parallel_size: 4}")


def test_inline_fields_mean_the_same_as_a_config(tmp_path: Path) -> None:
    from_file = model_of(tmp_path, LLAMA)
    path = tmp_path / "demo.yaml"
    path.write_text(MANIFEST.replace("{config: config.json}", json.dumps(LLAMA)))
    assert dict(load_manifest(path).model) == from_file
