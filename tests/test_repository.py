"""What the repository says of itself is so: paths in documents, scripts, versions, extras."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
from pathlib import Path

import pytest

import kernelforge
from tests.project_file import PROJECT

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("specs/*.md"), *ROOT.glob("registry/*.md")]
SCRIPTS = [path for folder in ("ci", ".ci") for path in sorted((ROOT / folder).iterdir()) if path.is_file()]

_LINK = re.compile(r"\]\(([^)#\s]+)")
# Two parts or more, or a file of the kinds that the root has; not part of a URL, a glob's tail or a relative `../`.
_PATH = re.compile(
    r"(?<![\w./:@-])[A-Za-z0-9][\w.-]*(?:/[\w.-]+)+/?|(?<![\w./-])[A-Z][A-Z_]+\.md\b|\bpyproject\.toml\b"
)


def paths_in(document: Path) -> set[str]:
    """What stands in a document and looks like a path of this repository: its first part exists there."""
    text = document.read_text()
    links = {link for link in _LINK.findall(text) if "://" not in link}
    words = {word.rstrip(".") for word in _PATH.findall(text)}
    here = (ROOT, document.parent)
    return links | {word for word in words if any((base / word.partition("/")[0]).exists() for base in here)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    """A reader who follows a path that was renamed stops trusting the rest."""
    named = paths_in(document)
    assert [path for path in sorted(named) if not any((base / path).exists() for base in (ROOT, document.parent))] == []


def test_paths_in_documents_are_seen(tmp_path: Path) -> None:
    """Else the test above could not fail."""
    document = tmp_path / "README.md"
    document.write_text(
        "See [a](docs/none.md), `kernelforge/gone.py`, ci/none and DECISIONS.md; not https://x.org/ci/x, s3://ci/a,\n"
        "../tests/x, sm_90a/x86_64-linux-gnu/cu13, kernelforge.lock/1, registry/releases/<name>.lock.json or *.md.\n"
    )
    assert paths_in(document) == {
        "docs/none.md",
        "kernelforge/gone.py",
        "ci/none",
        "DECISIONS.md",
        "registry/releases/",
    }


def test_one_version_everywhere() -> None:
    assert PROJECT["project"]["version"] == kernelforge.__version__


@pytest.mark.parametrize("command", PROJECT["project"]["scripts"])
def test_a_console_script_leads_somewhere(command: str) -> None:
    """An entry point of a renamed module fails after the installation, on the user's machine."""
    module, _, function = PROJECT["project"]["scripts"][command].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_extras_that_messages_advise_exist() -> None:
    """`pip install 'kernelforge[...]'` with an unknown extra installs nothing and says so in passing."""
    sources = [*DOCUMENTS, *(ROOT / "kernelforge").rglob("*.py"), *(ROOT / "ci").iterdir()]
    advised = {
        extra
        for path in sources
        for extras in re.findall(r"kernelforge\[([a-z0-9,]+)\]", path.read_text())
        for extra in extras.split(",")
    }
    assert advised
    assert advised <= set(PROJECT["project"]["optional-dependencies"])


def test_what_decides_bytes_is_pinned() -> None:
    """Another compiler, call interface or linker makes other objects or packs from equal keys."""
    pinned = {
        requirement.partition("==")[0]
        for requirement in PROJECT["project"]["optional-dependencies"]["build"]
        if "==" in requirement
    }
    assert {"nvidia-cutlass-dsl[cu13]", "apache-tvm-ffi", "ziglang"} <= pinned


def test_files_that_the_wheel_includes_exist() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert [path for path in included if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_script_can_be_run(script: Path) -> None:
    """One with a first line for the system is executable; all of them are shell without syntax errors."""
    subprocess.run(["bash", "-n", script], check=True)
    assert os.access(script, os.X_OK) == script.read_text().startswith("#!")
