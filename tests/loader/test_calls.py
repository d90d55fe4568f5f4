"""Calls of the built-in kernels, compiled and linked by the real builder: what must launch, and what must not.

What nobody can detect is not here: two tensors of one call that share memory, and a tensor whose memory is gone.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelforge.lockfile import Lockfile
from kernelforge.store.blobs import get_blob
from kernelforge.store.file import FileStore
from tests.cli.command import run
from tests.loader.call_table import CALLS, HEAD_DIM, HIDDEN, KV_HEADS, Q_HEADS, TOKENS
from tests.loader.python_process import ROOT

pytestmark = pytest.mark.slow

_EM_CUDA = 190
_FAT_BINARY = re.escape((0xBA55ED50).to_bytes(4, "little"))  # a container of images (kind 2) and PTX (kind 1)
_IMAGE = 2
_MANIFEST = f"""
schema: kernelforge.manifest/1
name: calls
targets: [h200-sxm, b200]
kernels:
  - kernel: kernelforge.kernels.qk_norm:QkNorm
    arguments:
      {{tokens: {TOKENS}, q_heads: {Q_HEADS}, kv_heads: {KV_HEADS}, head_dim: {HEAD_DIM}, dtype: bfloat16, eps: 1.0e-6,
       weight_offset: 0.0}}
  - kernel: kernelforge.kernels.rms_norm:RmsNorm
    arguments:
      {{tokens: {{choices: [1, {TOKENS}]}}, hidden: {HIDDEN}, dtype: bfloat16, has_residual: {{choices: [false, true]}},
       eps: 1.0e-6, weight_offset: 0.0}}
"""


@dataclass(frozen=True)
class Outcome:
    launches: int
    error: str
    text: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the real command built the release: ``calls.lock.json`` and ``store``."""
    folder = tmp_path_factory.mktemp("calls")
    (folder / "calls.yaml").write_text(_MANIFEST)
    built = run("build", "calls.yaml", "--store", "file:store", "--lock", "calls.lock.json", cwd=folder)
    assert built.code == 0, built.err
    return folder


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[str, dict[str, Outcome]]:
    """Device profile -> name of the call -> what came of it."""
    return {name: _outcomes(folder, name) for name in ("h200-sxm", "b200")}


def _outcomes(folder: Path, name: str) -> dict[str, Outcome]:
    command = [sys.executable, "-m", "tests.loader.recorded_calls", folder / "calls.lock.json", folder / "store", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {call: Outcome(*outcome) for call, outcome in json.loads(done.stdout).items()}


@pytest.mark.parametrize("name", ["h200-sxm", "b200"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_launches_once_or_is_refused_before_the_launch(
    outcomes: dict[str, dict[str, Outcome]], call: str, name: str
) -> None:
    """A5 and others: what reaches the card wrong is a wrong result, or an error that ends the process."""
    outcome, expected = outcomes[name][call], CALLS[call]
    assert outcome.error == expected.error, outcome.text
    assert outcome.launches == (0 if expected.error else 1)
    assert expected.words in outcome.text
    if expected.error == "CallRefused":
        assert "nothing was launched" in outcome.text


@pytest.mark.parametrize("name", ["h200-sxm", "b200"])
def test_a_pack_holds_device_code_of_its_architecture_and_no_ptx(folder: Path, name: str) -> None:
    """C5: with PTX an older driver would compile it silently, for seconds, or fail in a launch."""
    lock = Lockfile.parse((folder / "calls.lock.json").read_bytes())
    pack = get_blob(FileStore(folder / "store"), lock.packs[name].blob)
    images = [start.start() for start in re.finditer(b"\x7fELF", pack) if _machine(pack, start.start()) == _EM_CUDA]
    containers = [start.start() for start in re.finditer(_FAT_BINARY, pack)]
    assert len(images) == len(containers) == len(lock.entries_for(name))
    assert [_kinds(pack, start) for start in containers] == [[_IMAGE]] * len(containers)
    arches = set(re.findall(rb"-arch (sm_[0-9]+[a-z]?)\b", pack))
    assert arches == {lock.packs[name].target.arch.encode()}
    assert not re.findall(rb"\.target\s+sm_|\.version\s+\d|\.address_size", pack)


def _machine(data: bytes, start: int) -> int:
    """``e_machine`` of the ELF file that starts there."""
    return int.from_bytes(data[start + 18 : start + 20], "little")


def _kinds(data: bytes, start: int) -> list[int]:
    """Kinds of all parts of a container: 16 bytes of header, then parts with kind, header size and size."""
    kinds, part = [], start + 16
    end = part + int.from_bytes(data[start + 8 : start + 16], "little")
    while part < end:
        kinds.append(int.from_bytes(data[part : part + 2], "little"))
        header_bytes = int.from_bytes(data[part + 4 : part + 8], "little")
        part += header_bytes + int.from_bytes(data[part + 8 : part + 16], "little")
    return kinds
