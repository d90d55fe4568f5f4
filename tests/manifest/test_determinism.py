"""The order of keys, and nothing else about the spelling of a manifest, may matter to what is built."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelforge.manifest import load_manifest

MANIFEST: dict[str, Any] = {
    "schema": "kernelforge.manifest/1",
    "name": "demo",
    "model": {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "rms_norm_eps": 1.5e-06},
    "engine": {"tensor_parallel_size": 2, "max_num_batched_tokens": 512, "dtype": "bfloat16"},
    "targets": ["h200-sxm", "b200"],
    "host": "x86_64-linux-gnu",
    "cuda": "cu13",
    "kernels": [
        {
            "kernel": "package.module:Kernel",
            "arguments": {
                "tokens": {"range": [1, {"from": "engine.max_num_batched_tokens"}], "step": 2},
                "heads": {"from": "model.q_heads_per_rank"},
                "dtype": {"choices": ["bfloat16", "float16"]},
                "eps": {"from": "model.rms_norm_eps"},
            },
        },
        {"kernel": "package.module:Other", "arguments": {"hidden": {"from": "model.hidden_size"}}},
    ],
}


@st.composite
def shuffled(draw: st.DrawFn, value: Any) -> Any:
    """``value`` with the keys of every mapping in it in some order."""
    if isinstance(value, dict):
        return {key: draw(shuffled(value[key])) for key in draw(st.permutations(list(value)))}
    return [draw(shuffled(item)) for item in value] if isinstance(value, list) else value


@given(shuffled(MANIFEST), st.sampled_from(["block", "flow", "json"]))
@settings(max_examples=60, deadline=None)
def test_order_of_keys_and_style_do_not_matter(manifest: dict[str, Any], style: str) -> None:
    """Dictionary order in a key made every other run of other systems miss."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo.yaml"
        path.write_text(json.dumps(MANIFEST))
        expected = load_manifest(path)
        if style == "json":
            path.write_text(json.dumps(manifest))
        else:
            path.write_text(yaml.safe_dump(manifest, sort_keys=False, default_flow_style=style == "flow"))
        found = load_manifest(path)
    assert found == expected
    # Iteration order too: it decides the order in which keys are first reached.
    texts = [json.dumps([each.to_json() for each in one.requests]) for one in (found, expected)]
    assert texts[0] == texts[1]
    assert (list(found.model), list(found.engine)) == (list(expected.model), list(expected.engine))
