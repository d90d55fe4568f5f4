"""Manifests: what is accepted, and for every mistake its file, its line and what to do about it."""

from __future__ import annotations

import os
import stat
import textwrap
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from kernelforge.contract import Choices, IntRange
from kernelforge.errors import ManifestError
from kernelforge.manifest import Deployment, load_manifest

GOOD = """\
schema: kernelforge.manifest/1
name: demo
model: {hidden_size: 4096, num_attention_heads: 32, num_key_value_heads: 8, head_dim: 128, torch_dtype: bfloat16}
engine: {tensor_parallel_size: 1, max_num_batched_tokens: 64}
targets: [h200-sxm]
kernels:
- kernel: package.module:Kernel
  arguments:
    tokens: 4
"""
TP = "tensor_parallel_size: 1"
TARGETS = "targets: [h200-sxm]"
KERNEL = "kernel: package.module:Kernel"
TOKENS = "tokens: 4"


def edited(old: str = "", new: str = "") -> str:
    """The good manifest with one part replaced; a part that is not there would make a test of nothing."""
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def written(folder: Path, text: str) -> Path:
    path = folder / "demo.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def load_text(folder: Path, text: str) -> Deployment:
    return load_manifest(written(folder, text))


def problems_of(folder: Path, text: str) -> list[tuple[str, int, str, str]]:
    path = written(folder, text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    assert caught.value.exit_code == 2
    return [(problem.file, problem.line, problem.what, problem.hint) for problem in caught.value.problems]


def argument(folder: Path, value: str) -> object:
    return load_text(folder, edited(TOKENS, f"tokens: {value}")).requests[0].arguments["tokens"]


# Each row: a part of the good manifest, what replaces it (the line at fault ends in `#!`), a part of what is said, and
# a part of the hint. Every row expects exactly one problem.
MISTAKES = {
    "unknown key": ("name: demo", "name: demo\nkernls: []  #!", "kernls is not a known key", "did you mean kernels?"),
    "unknown engine setting": (
        TP,
        "\n  tensor_parallel_sise: 1 #!\n ",
        "engine.tensor_parallel_sise is not a known key",
        "did you mean tensor_parallel_size?",
    ),
    "key with dashes as on a command line": (
        TP,
        "tensor-parallel-size: 1 #!\n ",
        "engine.tensor-parallel-size is not a known key",
        "did you mean tensor_parallel_size?",
    ),
    "unknown kernel key": (
        KERNEL,
        f"{KERNEL}\n  args: {{}}  #!",
        "kernels[0].args is not a known key",
        "did you mean arguments?",
    ),
    "missing key": ("name: demo\n", "", "name is missing", "add name: qwen3-8b"),
    "missing kernel": (f"- {KERNEL}\n ", "-", "kernels[0].kernel is missing", "add kernel: package.module:ClassName"),
    "later schema": (
        "manifest/1",
        "manifest/2 #!",
        "'kernelforge.manifest/2' is not a format",
        "kernelforge.manifest/1",
    ),
    "key given twice": ("name: demo", "name: demo\nname: other #!", "name is given twice, first in line 2", "keep one"),
    "nested key given twice": (
        TOKENS,
        "tokens: 4\n    tokens: 5 #!",
        "tokens is given twice, first in line 9",
        "keep one",
    ),
    "number for a name": ("name: demo", "name: 8 #!", "name must be text, not 8 (a whole number)", 'quote it: "8"'),
    "name with a slash": ("name: demo", "name: ../demo #!", "'../demo' is not a usable name", "a name is a file name"),
    "name in capitals": ("name: demo", "name: Demo #!", "'Demo' is not a usable name", "did you mean demo?"),
    "name that is too long": ("name: demo", f"name: {'a' * 81} #!", "is not a usable name", "at most 80 characters"),
    "text for a number": (
        TP,
        "tensor_parallel_size: '1' #!\n ",
        "must be a whole number, not '1' (text)",
        "without quotes",
    ),
    "number with underscores": (
        TP,
        "max_num_seqs: 8_192 #!\n ",
        "engine.max_num_seqs must be a whole number, not 8_192 (text)",
        "plain digits",
    ),
    "boolean for a number": (
        TP,
        "tensor_parallel_size: true #!\n ",
        "must be a whole number, not true (a boolean)",
        "write",
    ),
    "decimal for a number": (
        TP,
        "tensor_parallel_size: 1.0 #!\n ",
        "must be a whole number, not 1.0 (a decimal",
        "write",
    ),
    "nothing for a number": (
        TP,
        "tensor_parallel_size: #!\n ",
        "must be a whole number, not nothing",
        "delete the key",
    ),
    "zero ranks": (TP, "tensor_parallel_size: 0 #!\n ", "engine.tensor_parallel_size is 0", "the least is 1"),
    "unknown dtype": (TP, "dtype: bf16 #!\n ", "engine.dtype: 'bf16' is not supported", "did you mean bfloat16?"),
    "unknown host": (
        TARGETS,
        f"{TARGETS}\nhost: x86-64-linux #!",
        "'x86-64-linux' is not",
        "did you mean x86_64-linux-gnu?",
    ),
    "unknown cuda": (TARGETS, f"{TARGETS}\ncuda: '13' #!", "cuda: '13' is not supported", "cu13"),
    "list for a mapping": (
        "{tensor_parallel_size: 1, max_num_batched_tokens: 64}",
        "[] #!",
        "engine must be a mapping, not a list",
        "write a mapping",
    ),
    "mapping for a list": ("kernels:\n-", "kernels: #!\n ", "kernels must be a list, not a mapping", "write a list"),
    "word for a list": (
        "kernels:\n- kernel: package.module:Kernel\n  arguments:\n    tokens: 4",
        "kernels: auto #!",
        "kernels must be a list, not auto (text)",
        "write a list",
    ),
    "no targets": (TARGETS, "targets: [] #!", "targets is empty", "at least one"),
    "unknown target": (TARGETS, "targets: [h20-sxm] #!", "no device profile 'h20-sxm'", "did you mean h200-sxm?"),
    "part of a target's name": (TARGETS, "targets: [h100] #!", "no device profile 'h100'", "did you mean h100-sxm?"),
    "architecture for a target": (TARGETS, "targets: [sm_90] #!", "no device profile 'sm_90'", "which know their arch"),
    "number for a target": (TARGETS, "targets: [90] #!", "a target must be text, not 90 (a whole", "h200-sxm"),
    "target given twice": (
        TARGETS,
        "targets:\n- h200-sxm\n- h200-sxm #!",
        "the target h200-sxm is given twice, first in line 6",
        "delete one",
    ),
    "profile file that is not there": (TARGETS, "targets: [./gpu.yaml] #!", "gpu.yaml does not exist", "relative to"),
    "file for a kernel": (
        KERNEL,
        "kernel: package/module.py:Kernel #!",
        "does not name a kernel class",
        "module:ClassName",
    ),
    "dot for a colon": (
        KERNEL,
        "kernel: package.module.Kernel #!",
        "does not name",
        "did you mean package.module:Kernel?",
    ),
    "kernel with a space": (KERNEL, "kernel: 'package: Kernel' #!", "does not name a kernel class", "module:ClassName"),
    "argument that is no identifier": (
        TOKENS,
        "num-tokens: 4 #!",
        "'num-tokens' cannot be the name of an",
        "as in Python",
    ),
    "argument that is a keyword": (
        TOKENS,
        "lambda: 4 #!",
        "'lambda' cannot be the name of an argument",
        "as in Python",
    ),
    "list for an argument": (TOKENS, "tokens: [1, 2] #!", "tokens is a list", "{choices: [...]}"),
    "nothing for an argument": (TOKENS, "tokens: #!", "tokens has no value", "write null"),
    "boolean of YAML 1.1": (
        TOKENS,
        "residual: no #!",
        "residual is no, which many YAML readers take for a boolean",
        '"no"',
    ),
    "number to base 60": (
        TOKENS,
        "tokens: 1:30 #!",
        "take for a number to base 60",
        'quote it if text is meant, "1:30"',
    ),
    "date": (TOKENS, "tag: 2026-11-29 #!", "take for a date", "quote it"),
    "underscores in a number": (TOKENS, "tokens: 1_000 #!", "take for a number", "plain digits"),
    "binary number": (TOKENS, "tokens: 0b11 #!", "take for a number", "plain digits"),
    "leading zero": (TOKENS, "tokens: 010 #!", "010 is octal to some readers", "write 10, or 0o"),
    "not a number": (TOKENS, "eps: .nan #!", ".nan is no finite number", "leave the argument out"),
    "infinity": (TOKENS, "eps: -.inf #!", "-.inf is no finite number", "leave the argument out"),
    "number without end": (TOKENS, "eps: 1e999 #!", "1e999 is too large", "finite"),
    "65 bits": (TOKENS, "tokens: 9223372036854775808 #!", "does not fit into 64 bits", "smaller"),
    "10,000 digits": (TOKENS, f"tokens: {'9' * 10_000} #!", "does not fit into 64 bits", "smaller"),
    "unknown form": (TOKENS, "tokens: {form: engine.dtype} #!", "tokens is a mapping with form", "did you mean from?"),
    "two forms": (
        TOKENS,
        "tokens: {from: engine.dtype, choices: [1]} #!",
        "mapping with from, choices",
        "{range: [first",
    ),
    "empty mapping": (TOKENS, "tokens: {} #!", "tokens is a mapping with nothing in it", "{from: ...}"),
    "range with one end": (TOKENS, "tokens: {range: [8]} #!", "needs a first and a last value", "both are included"),
    "range of words": (TOKENS, "tokens: {range: [a, 2]} #!", "needs whole numbers for its range", "[1, 8192]"),
    "range of booleans": (
        TOKENS,
        "tokens: {range: [true, 2]} #!",
        "whole numbers for its range, not True",
        "[1, 8192]",
    ),
    "empty range": (TOKENS, "tokens: {range: [9, 8]} #!", "has an empty range: 9 is above 8", "{range: [8, 9]}"),
    "step of nothing": (TOKENS, "tokens: {range: [1, 8], step: 0} #!", "has the step 0", "the least step is 1"),
    "no choices": (TOKENS, "tokens: {choices: []} #!", "tokens has no choices", "at least one"),
    "one choice outside a list": (
        TOKENS,
        "tokens: {choices: 4} #!",
        "has 4 (a whole number) for choices",
        "at least one",
    ),
    "choice given twice": (TOKENS, "tokens: {choices: [1, 1]} #!", "has the choice 1 twice", "delete one"),
    "wrong path": (
        TOKENS,
        "tokens: {from: engine.max_num_batch_tokens} #!",
        "from: engine.max_num_batch_tokens names no value",
        "did you mean engine.max_num_batched_tokens?",
    ),
    "path without a section": (
        TOKENS,
        "tokens: {from: head_dim} #!",
        "from: head_dim names",
        "did you mean model.head_dim?",
    ),
    "path that is a number": (
        TOKENS,
        "tokens: {from: 4} #!",
        "takes its value from 4 (a whole number)",
        "model.head_dim",
    ),
    "wrong path in a range": (TOKENS, "tokens: {range: [1, {from: engine.x}]} #!", "from: engine.x names", "engine."),
    "setting that is not given": (
        TOKENS,
        "seqs: {from: engine.max_num_seqs} #!",
        "engine settings do not have",
        "engine",
    ),
    "field that the model lacks": (
        TOKENS,
        "eps: {from: model.rms_norm_eps} #!",
        "model.rms_norm_eps has no value: the config has no rms_norm_eps",
        "write the value here",
    ),
    "too many points": (
        TOKENS,
        "tokens: {range: [1, 8192]} \n    rows: {range: [1, 8192]}",
        "8,192 rows x 8,192 tokens = 67,108,864 points",
        "the most is 16,777,216",
    ),
    "inline field of ours": (
        "hidden_size: 4096",
        "q_heads: 4 #!\n ",
        "model.q_heads is not a known",
        "num_attention_heads?",
    ),
    "inline field mistyped": (
        "hidden_size: 4096",
        "hiden_size: 4 #!\n ",
        "model.hiden_size is not",
        "did you mean hidden_size?",
    ),
    "inline field of the wrong type": (
        "hidden_size: 4096",
        "hidden_size: big #!\n ",
        "hidden_size is 'big'",
        "whole number",
    ),
    "ranks that do not divide": (
        TP,
        "tensor_parallel_size: 64 #!\n ",
        "tensor_parallel_size 64 does not fit the model's 32 query heads: 32 / 64 = 0.50",
        "over 1, 2, 4, 8, 16, 32 ranks",
    ),
}


@pytest.mark.parametrize(("old", "new", "what", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_is_named_with_its_line(tmp_path: Path, old: str, new: str, what: str, hint: str) -> None:
    text = edited(old, new)
    problems = problems_of(tmp_path, text)
    assert len(problems) == 1, problems
    file, line, said, advice = problems[0]
    assert file == str(tmp_path / "demo.yaml")
    assert what in said
    assert hint in advice
    if "#!" in text:
        assert line == text[: text.index("#!")].count("\n") + 1
    assert "pydantic" not in f"{said} {advice}".lower()


def test_several_mistakes_are_reported_together_in_the_order_of_lines(tmp_path: Path) -> None:
    """One run, one list: nobody fixes a manifest problem by problem. Each file keeps its own lines."""
    (tmp_path / "model.json").write_text('{\n "hidden_size": "big",\n "num_attention_heads": 32\n}\n')
    (tmp_path / "devices").mkdir()
    profile = "schema: kernelforge.device/1\nname: odd\narch: sm_90\nfacts:\n  num_sms: {value: 132, source: ''}\n"
    (tmp_path / "devices" / "odd.yaml").write_text(profile)
    text = textwrap.dedent("""\
        schema: kernelforge.manifest/1
        name: Demo
        model: {config: model.json}
        engine:
          tensor_parallel_size: 5
          max_tokens: 8192
          dtype: !!python/name:os.system
        targets: [odd, b20]
        kernels:
        - kernel: package.module:Kernel
          arguments:
            tokens: {range: [1, {from: engine.max_num_batched_token}]}
            dtype: {from: engine.dtype}
            hidden: {from: model.hidden_size}
            mode: off
        - kernel: package.module
          arguments: {tokens: {range: [2, 1]}}
        """)
    found = problems_of(tmp_path, text)
    demo, model, odd = (str(tmp_path / name) for name in ("demo.yaml", "model.json", "devices/odd.yaml"))
    assert [(file, line) for file, line, _, _ in found] == [
        (demo, 2),
        (demo, 5),
        (demo, 6),
        (demo, 7),
        (demo, 8),
        (demo, 12),
        (demo, 15),
        (demo, 16),
        (demo, 17),
        (odd, 3),
        (odd, 5),
        (model, 2),
    ]
    assert "32 / 5 = 6.40" in found[1][2]
    assert "did you mean sm_90a?" in found[9][3]


def test_the_error_says_how_many_and_shows_the_first(tmp_path: Path) -> None:
    path = written(tmp_path, edited("name: demo", "name: Demo\nnmae: x"))
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    assert str(caught.value).startswith(f"{path}:2: 2 problems, the first is: name: 'Demo' is not a usable name")


def test_config_beside_inline_fields_is_refused(tmp_path: Path) -> None:
    """Two sources for one model: neither may win silently."""
    found = problems_of(tmp_path, edited("{hidden_size: 4096", "{config: model.json, hidden_size: 4096"))
    assert "model.hidden_size stands beside model.config" in [what for _, _, what, _ in found]
    assert f"{tmp_path / 'model.json'} does not exist" in [what for _, _, what, _ in found]


def test_a_broken_section_is_not_reported_again_where_it_is_used(tmp_path: Path) -> None:
    text = edited("max_num_batched_tokens: 64", "max_num_batched_tokens: many").replace(
        TOKENS, "tokens: {range: [1, {from: engine.max_num_batched_tokens}]}\n    heads: {from: model.q_heads_per_rank}"
    )
    assert [what for _, _, what, _ in problems_of(tmp_path, text)] == [
        "engine.max_num_batched_tokens must be a whole number, not many (text)"
    ]


TAGS: tuple[str, ...] = (
    "!!python/object/apply:os.system [touch MARK]",
    "!!python/object/new:os.system [touch MARK]",
    "!!str 4",
    "!x 4",
    "! 4",
)
TAGS += ("!!binary aGk=", "!!set {a}", "!!python/tuple [1, 2]", "!<tag:yaml.org,2002:int> 4")


@pytest.mark.parametrize("tagged", TAGS)
def test_every_tag_is_refused_and_runs_nothing(tmp_path: Path, tagged: str) -> None:
    """A manifest comes from a pull request: reading it must not run what is in it."""
    mark = tmp_path / "mark"
    found = problems_of(tmp_path, edited(TOKENS, f"tokens: {tagged.replace('MARK', str(mark))}"))
    assert [(line, what[: len("the tag !")]) for _, line, what, _ in found] == [(9, "the tag !")]
    assert not mark.exists()


def test_a_tag_on_the_whole_document_or_on_a_key_is_refused(tmp_path: Path) -> None:
    assert [line for _, line, _, _ in problems_of(tmp_path, f"!!python/dict\n{GOOD}")] == [1]
    assert [line for _, line, _, _ in problems_of(tmp_path, edited(TOKENS, "!!str tokens: 4"))] == [9]


def test_values_of_every_form(tmp_path: Path) -> None:
    assert argument(tmp_path, "{range: [1, 8192]}") == IntRange(1, 8193)
    assert argument(tmp_path, "{range: [1, {from: engine.max_num_batched_tokens}]}") == IntRange(1, 65)
    assert argument(tmp_path, "{range: [8, 248], step: 8}") == IntRange(8, 249, 8)
    assert argument(tmp_path, "{range: [4, 4]}") == IntRange(4, 5)
    assert argument(tmp_path, "{choices: [bfloat16, float16]}") == Choices(("bfloat16", "float16"))
    assert argument(tmp_path, "{choices: [{from: model.dtype}, float16]}") == Choices(("bfloat16", "float16"))
    assert argument(tmp_path, "{choices: [1, 1.0, true]}") == Choices((1, 1.0, True))
    assert argument(tmp_path, "{from: model.kv_heads_per_rank}") == 8
    assert argument(tmp_path, "null") is None


@pytest.mark.parametrize(
    ("written_as", "value"),
    [
        ("1e-6", 1e-6),
        ("1.0e-6", 1e-6),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-0.0", -0.0),
        ("+4", 4),
        ("0x10", 16),
        ("0o17", 15),
        ("True", True),
        ("FALSE", False),
        ("~", None),
        ("'no'", "no"),
        ('"1:30"', "1:30"),
        ("'010'", "010"),
        ("n", "n"),
        ("bfloat16", "bfloat16"),
        ("0b", "0b"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(tmp_path: Path, written_as: str, value: object) -> None:
    """PyYAML's own resolver reads 1e-6 as text and 0o17 as text."""
    text = edited(TOKENS, f"tokens: {{choices: [{written_as}]}}")
    found = load_text(tmp_path, text).requests[0].arguments["tokens"]
    assert isinstance(found, Choices)
    assert (type(found.values[0]), repr(found.values[0])) == (type(value), repr(value))


def test_words_of_yaml_1_1_are_plain_keys(tmp_path: Path) -> None:
    """A GEMM's `n` and `y`, and `on`, are argument names like any other."""
    request = load_text(tmp_path, edited(TOKENS, "n: 1\n    y: 2\n    on: 3")).requests[0]
    assert dict(request.arguments) == {"n": 1, "on": 3, "y": 2}


def test_a_complete_deployment(tmp_path: Path) -> None:
    text = edited(TP, "tensor_parallel_size: 4").replace(TOKENS, "heads: {from: model.q_heads_per_rank}\n    eps: 1e-6")
    deployment = load_text(tmp_path, text + "host: aarch64-linux-gnu\ncuda: cu12\n")
    path = tmp_path / "demo.yaml"
    assert deployment.name == "demo"
    assert deployment.path == path
    assert [str(each.target) for each in deployment.targets] == ["sm_90a/aarch64-linux-gnu/cu12"]
    assert deployment.targets[0].profile.num_sms == 132
    assert deployment.model["q_heads_per_rank"] == 8
    assert deployment.engine == {"tensor_parallel_size": 4, "max_num_batched_tokens": 64}
    (request,) = deployment.requests
    assert (request.kernel, request.line) == ("package.module:Kernel", 7)
    assert dict(request.origins) == {
        "eps": f"given ({path}:10)",
        "heads": f"model.q_heads_per_rank = 8 (32 / tensor_parallel_size 4, {path}:3)",
    }


def test_key_value_heads_replicate_where_there_are_more_ranks(tmp_path: Path) -> None:
    assert load_text(tmp_path, edited(TP, "tensor_parallel_size: 16")).model["kv_heads_per_rank"] == 1


def test_key_value_heads_that_fit_no_way_are_named_with_the_arithmetic(tmp_path: Path) -> None:
    text = edited("num_key_value_heads: 8", "num_key_value_heads: 6").replace(TP, "tensor_parallel_size: 4")
    assert [what for _, _, what, _ in problems_of(tmp_path, text)] == [
        "tensor_parallel_size 4 does not fit the model's 6 key/value heads: 6 / 4 = 1.50"
    ]


def test_model_and_engine_may_be_left_out(tmp_path: Path) -> None:
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith(("model", "engine")))
    deployment = load_text(tmp_path, text)
    assert (dict(deployment.model), dict(deployment.engine)) == ({}, {"tensor_parallel_size": 1})
    found = problems_of(tmp_path, text.replace(TOKENS, "tokens: {from: model.head_dim}"))
    assert found[0][2] == "model.head_dim has no value: the manifest names no model"


def test_the_same_kernel_twice_is_fine_and_the_same_request_twice_is_not(tmp_path: Path) -> None:
    again = "- kernel: package.module:Kernel\n  arguments: {tokens: 4.0}\n"
    assert len(load_text(tmp_path, GOOD + again).requests) == 2
    found = problems_of(tmp_path, GOOD + again.replace("4.0", "4"))
    assert [(line, what) for _, line, what, _ in found] == [(10, "kernels[1] asks for the same as line 7")]


def test_a_deployment_cannot_be_changed(tmp_path: Path) -> None:
    """A key taken before and after someone edits the config object would differ, and everything would miss."""
    deployment = load_text(tmp_path, GOOD)
    with pytest.raises(FrozenInstanceError):
        deployment.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        deployment.engine["dtype"] = "float16"  # type: ignore[index]
    with pytest.raises(TypeError):
        deployment.requests[0].arguments["tokens"] = 5  # type: ignore[index]


def test_place_and_environment_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Home, folder and pod address in a hash made every restart of other systems compile again."""
    places = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("HOME", f"/{name}")
        monkeypatch.setenv("POD_IP", name)
        monkeypatch.chdir(tmp_path / name)
        written(tmp_path / name, GOOD)
        places.append(load_manifest(Path("demo.yaml") if name == "a" else tmp_path / name / "demo.yaml"))
    assert places[0] == places[1]
    assert [request.to_json() for request in places[0].requests] == [
        request.to_json() for request in places[1].requests
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Whatever lies under the path is a problem with a hint, never a traceback and never a hang."""
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "empty.yaml").write_bytes(b"")
    (tmp_path / "comment.yaml").write_text("# nothing yet\n")
    (tmp_path / "binary.yaml").write_bytes(b"name: x\n\x00\x01")
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nname: caf\xe9\n")
    (tmp_path / "utf16.yaml").write_bytes("name: x".encode("utf-16"))
    (tmp_path / "large.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    expected = {
        "folder.yaml": (1, "is a directory"),
        "pipe.yaml": (1, "is not a regular file"),
        "gone.yaml": (1, "does not exist"),
        "empty.yaml": (1, "the file is empty"),
        "comment.yaml": (1, "the file holds no value"),
        "binary.yaml": (2, "is no printable character"),
        "latin.yaml": (2, "not UTF-8"),
        "utf16.yaml": (1, "not UTF-8"),
        "large.yaml": (1, "larger than 1,048,576 bytes"),
        "x" * 300: (1, "cannot be read"),
        "empty.yaml/x": (1, "does not exist"),
        "zero\x00.yaml": (1, "cannot be read"),
    }
    for name, (line, what) in expected.items():
        with pytest.raises(ManifestError) as caught:
            load_manifest(tmp_path / name)
        (problem,) = caught.value.problems
        assert (problem.line, what in problem.what) == (line, True), problem
        assert problem.file == str(tmp_path / name)


def test_a_mistyped_file_name_is_corrected(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / "demo.yml")
    assert caught.value.hint == "did you mean demo.yaml?"


def test_a_file_without_permission(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        tmp_path.chmod(stat.S_IRWXU | stat.S_IXOTH)
        os.seteuid(65534)
    try:
        with pytest.raises(ManifestError) as caught:
            load_manifest(path)
    finally:
        os.seteuid(user)
    assert "may not be read by this user" in caught.value.problems[0].what


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_manifest(path).name == "demo"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (f"{GOOD}---\nname: second\n", 10, "a second document"),
        (f"%YAML 1.1\n---\n{GOOD}", 1, "% directive"),
        (edited("name: demo", "name: &n demo"), 2, "&n is an anchor"),
        (edited(TOKENS, "tokens: *n"), 9, "*n is an alias"),
        (edited(TOKENS, "1: 4"), 9, "1 cannot be a key"),
        (edited(TOKENS, "true: 4"), 9, "true cannot be a key"),
        (edited(TOKENS, "[a]: 4"), 9, "a list or mapping cannot be a key"),
        (edited(TOKENS, "null: 4"), 9, "null cannot be a key"),
        (edited(TOKENS, "<<: {tokens: 4}"), 9, "'<<' cannot be the name of an argument"),
        (edited(TOKENS, "\ttokens: 4"), 9, "not valid YAML"),
        (edited(TARGETS, "targets: [h200-sxm"), 6, "not valid YAML"),
        (edited(TOKENS, f"tokens: {'[' * 900}{']' * 900}"), 9, "nested more than 20 deep"),
        (edited(TOKENS, f"tokens: {'[' * 500_000}"), 9, "nest"),
        (edited(TOKENS, f"tokens: [{'1,' * 60_000}]"), 9, "more than 50,000 values"),
        ("just text", 1, "the file must be a mapping, not just text (text)"),
        ("- a\n- b\n", 1, "the file must be a mapping, not a list"),
    ],
)
def test_yaml_that_is_no_plain_document(tmp_path: Path, text: str, line: int, what: str) -> None:
    found = problems_of(tmp_path, text)
    assert (found[0][1], what in found[0][2]) == (line, True), found


@pytest.mark.parametrize("end", [8_193_000_000, (1 << 63) - 1])
def test_an_endless_range_is_a_problem_and_no_plan_without_end(tmp_path: Path, end: int) -> None:
    """Three zeros too many in a token count must not occupy CI until its time limit."""
    found = problems_of(tmp_path, edited(TOKENS, f"tokens: {{range: [1, {end}]}}"))
    assert [(line, what) for _, line, what, _ in found] == [(8, f"{end:,} tokens = {end:,} points")]


def test_messages_hold_one_printable_line(tmp_path: Path) -> None:
    """A key from a pull request must not clear the screen of whoever reads the CI log, nor fill it."""
    found = problems_of(tmp_path, f'"\\e[2J\\n": 1\n"{"k" * 1000}": 1\n{GOOD}')
    assert found[0][2] == "\\x1b[2J\\n is not a known key"
    assert all(what.isprintable() and len(what) < 500 for _, _, what, _ in found)


def test_thousands_of_problems_are_collected_at_once(tmp_path: Path) -> None:
    """Looking for repetitions in a list would take minutes for this file."""
    found = problems_of(tmp_path, GOOD + "".join(f"k{number}: *x\n" for number in range(20_000)))
    assert len(found) == 20_000


def test_aliases_cannot_multiply(tmp_path: Path) -> None:
    """Nine lines that a resolving reader expands to a billion values."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))]
    found = problems_of(tmp_path, "\n".join(lines))
    assert all(hint for _, _, _, hint in found)
    assert {line for _, line, what, _ in found if "alias" in what} == set(range(2, 11))
