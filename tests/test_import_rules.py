"""What a reader of DESIGN may rely on without reading the code: who imports whom, and what importing does not do."""

from __future__ import annotations

import ast
import json
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.loader.python_process import run_python
from tests.project_file import PROJECT

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "kernelforge").rglob("*.py"))
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in SOURCES}
# The two edges that read the environment: commands, and the loader's options with the function that asks for them.
READS_ENVIRONMENT = ("kernelforge/cli/", "kernelforge/loader/options.py", "kernelforge/loader/load.py")
# It decides nothing by it: a kernel that changed the environment is the last one of its process.
COMPARES_ENVIRONMENT = ("kernelforge/builder/child.py",)
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "diskcache", "jsonpickle"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", ".unsafe_load", ".full_load", ".load_all", ".import_string"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_import_contracts_are_kept() -> None:
    """Rooms know what comes before them in the flow, and a pod never gets the builder."""
    program = Path(sysconfig.get_path("scripts"), "lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_room_and_leaf_has_a_contract() -> None:
    """A new module that no contract names may import anything, and nobody notices."""
    governed = {
        source.split(".")[1]
        for contract in PROJECT["tool"]["importlinter"]["contracts"]
        for source in contract["source_modules"]
    }
    found = {module_name(path).split(".")[1] for path in SOURCES if path.parent != ROOT / "kernelforge"}
    found |= {path.stem for path in (ROOT / "kernelforge").glob("*.py")}
    # Nobody imports cli, as each contract says; it may import everything.
    assert found - {"__init__", "cli"} == governed


_IMPORT_ALL = """
import ctypes, importlib, json, os, sys
package, names = sys.argv[1], json.loads(sys.argv[2])
seen = []

def is_ours() -> bool:
    # Decided by the innermost frame that can: the import system opens files, and click and pydantic read variables
    # while our commands and models are declared; our own modules do neither.
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib") or "site-packages" in name:
            return False
        if name.startswith(package):
            return True
        frame = frame.f_back
    return False

class Recorded(type(os.environ)):
    def __getitem__(self, name):
        if is_ours():
            seen.append(f"reads {name}")
        return super().__getitem__(name)

    def __iter__(self):
        if is_ours():
            seen.append("reads all of the environment")
        return super().__iter__()

EFFECTS = ("open", "os.", "shutil.", "subprocess.", "socket.", "ctypes.dlopen", "tempfile.", "signal.", "fcntl.")

def watch(event, arguments):
    if event.startswith(EFFECTS) and is_ours():
        seen.append(f"{event} {arguments!r}")

sys.dont_write_bytecode = True
os.environ.__class__ = Recorded
sys.addaudithook(watch)
for name in names:
    before, threads = len(seen), set(sys._current_frames())
    importlib.import_module(name)
    seen[before:] = [f"{name} {what}" for what in seen[before:]]
    if set(sys._current_frames()) != threads:
        seen.append(f"{name} starts a thread")
print(json.dumps(seen))
"""


def test_importing_any_module_has_no_effect() -> None:
    """No file, no folder, no process, no variable: importing in a pod, a planner or a test must not change anything."""
    # Device code and the warm-up kernel import the compiler; only a compiling process imports them.
    names = [module_name(path) for path in SOURCES if not path.name.endswith(("_device.py", "warm_up.py"))]
    assert "kernelforge.cli.main" in names
    assert json.loads(run_python(_IMPORT_ALL, str(ROOT / "kernelforge"), json.dumps(names))) == []


def test_the_check_for_effects_sees_effects(tmp_path: Path) -> None:
    """Else the test above could not fail."""
    (tmp_path / "guilty.py").write_text(
        "import os, pathlib\nos.environ.get('HOME')\npathlib.Path(__file__).read_text()\n"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + _IMPORT_ALL
    seen = json.loads(run_python(code, str(tmp_path), json.dumps(["guilty"])))
    assert [what.split()[1] for what in seen] == ["reads", "open"]


def test_a_module_says_why_it_exists() -> None:
    assert [name for name, tree in TREES.items() if not ast.get_docstring(tree)] == []


def test_no_module_is_a_drawer() -> None:
    """A folder of `utils` hides the flow: what is in it belongs to somebody."""
    words = {part for path in SOURCES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert not words & {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc", "core", "base"}


def runs_data(tree: ast.Module) -> bool:
    imported: set[str] = set()
    called: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
        elif isinstance(node, ast.Attribute):
            called.add(f".{node.attr}")
    return bool(imported & UNSAFE_MODULES or called & UNSAFE_CALLS)


def test_no_data_is_ever_run() -> None:
    """Case G1: cached pickles run code when they are read, and so do `eval`, `exec` and YAML's own loaders."""
    assert [name for name, tree in TREES.items() if runs_data(tree)] == []


@pytest.mark.parametrize("code", ["import pickle", "from marshal import loads", "eval('1')", "yaml.unsafe_load('')"])
def test_the_check_for_run_data_sees_it(code: str) -> None:
    assert runs_data(ast.parse(code))


def test_the_environment_is_read_at_two_edges_only() -> None:
    """A variable that is read deep inside changes what is built and is in no key."""

    def names(tree: ast.Module) -> set[str]:
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        return used | {alias.name for node in imports for alias in node.names}

    reading = [name for name, tree in TREES.items() if names(tree) & {"environ", "environb", "getenv", "getenvb"}]
    assert [name for name in reading if not name.startswith(READS_ENVIRONMENT + COMPARES_ENVIRONMENT)] == []
    assert reading, "the two edges themselves are seen"
