"""The source fingerprint: which edits must be seen, which must not, and what is refused."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kernelforge.errors import SourceError
from kernelforge.fingerprint import Fingerprint, SourceTree, device_fingerprint, launch_fingerprint

FAMILY = Path(__file__).parent / "keys" / "fakekernels"
KERNEL = "fakekernels.scale:Scale"
REPOSITORY = Path(__file__).parents[1]


class Sources:
    """Source files in a folder on `sys.path`. Finders cache folder listings, so they are told of every change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        importlib.invalidate_caches()

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text, f"{name} does not hold {old!r}"
        self.write({name: text.replace(old, new)})

    def device(self, kernel: str = "sample.kernel:K") -> Fingerprint:
        return device_fingerprint(kernel)

    def launch(self, kernel: str = "sample.kernel:K") -> Fingerprint:
        return launch_fingerprint(kernel)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Sources(tmp_path)


@pytest.fixture
def family(sources: Sources) -> Sources:
    shutil.copytree(FAMILY, sources.folder / "fakekernels", ignore=shutil.ignore_patterns("__pycache__"))
    importlib.invalidate_caches()
    return sources


# (what was edited, file, old text, new text)
Edit = tuple[str, str, str, str]

DEVICE_EDITS: list[Edit] = [
    ("entry point's body", "scale.py", ", vector_bytes=VECTOR_BYTES)", ")"),
    ("device method's body", "scale_device.py", "* 32", "* 64"),
    ("constant's value", "scale_device.py", "FACTOR = 2.0", "FACTOR = 2.5"),
    ("constant's type", "scale_device.py", "FACTOR = 2.0", "FACTOR = 2"),
    ("constant in a tuple assignment", "scale.py", "= 4, 16", "= 4, 8"),
    ("helper in another module", "arith.py", "left * right * ONE", "left + right * ONE"),
    ("helper of a helper", "arith.py", "return 0", "return 1"),
    ("constant of a helper", "arith.py", "ONE = 1", "ONE = 2"),
    ("helper read as module attribute", "tiles.py", "ceil_div(tile, multiple) * multiple", "tile + multiple"),
    ("default value of a helper", "tiles.py", "multiple: int = 8", "multiple: int = 16"),
    ("default value of a device method", "scale_device.py", "vector_bytes: int = 16", "vector_bytes: int = 32"),
    ("decorator", "scale_device.py", "@jit\n", "@jit(2)\n"),
    ("what a decorator's name stands for", "scale_device.py", "import jit", "import kernel as jit"),
    ("two imports swapped", "scale_device.py", "multiply\nfrom fakekernels.arith import offset as shifted",
     "offset as multiply\nfrom fakekernels.arith import multiply as shifted"),
    ("class constant", "scale_device.py", "WARPS = 4", "WARPS = 8"),
    ("annotation of device code", "scale_device.py", "factor: float = FACTOR", "factor: int = FACTOR"),
    ("future import", "scale_device.py", "from __future__ import annotations\n", ""),
    ("effect of a device module", "scale_device.py", 'TABLE["column"] = 2', 'TABLE["column"] = 3'),
    ("order of effects", "scale_device.py", 'TABLE = {"row": 1}\nTABLE["column"] = 2',
     'TABLE["column"] = 2\nTABLE = {"row": 1}'),
    ("effect in the kernel's module", "scale.py", "UNROLL, VECTOR", "STAGES += 1\nUNROLL, VECTOR"),
    ("effect of the package", "__init__.py", 'compiler."""\n', 'compiler."""\nimport os\nos.x = 1\n'),
    ("head of a base class", "base.py", "class ScaleBase(JitKernel[KeyT])", "class ScaleBase(JitKernel[KeyT], object)"),
    ("keyword of the class statement", "scale.py", 'layout="row"', 'layout="column"'),
    ("hook of a base class", "base.py", "super().__init_subclass__(**options)", "pass"),
    ("inherited member", "base.py", "return ALIGNMENT", "return ALIGNMENT * 2"),
    ("constant of an inherited member", "base.py", "ALIGNMENT = 16", "ALIGNMENT = 32"),
    ("inherited member overridden", "scale.py", "    def reference",
     "    def alignment(self) -> int:\n        return 4\n\n    def reference"),
    ("warm-up inputs", "scale.py", "(self.fake_row(compile_key.tile),", "(self.fake_row(1),"),
    ("default of a key field", "scale.py", "eps: float = 1e-6\n        order", "eps: float = 1e-5\n        order"),
    ("type of a key field", "scale.py", "stages: int = STAGES", "stages: float = STAGES"),
    ("order of key fields", "scale.py", "tile: int\n        tiles: int", "tiles: int\n        tile: int"),
    ("constant behind a key field", "scale.py", "STAGES = 2", "STAGES = 3"),
    ("value of an enum", "keys.py", "COLUMN = 2", "COLUMN = 3"),
    ("order of an enum's members", "keys.py", "ROW = 1\n    COLUMN = 2", "COLUMN = 2\n    ROW = 1"),
    ("field of a nested dataclass", "keys.py", "base: int", "base: float"),
    ("order of a nested dataclass's fields", "keys.py", "bits: int\n    base: int", "base: int\n    bits: int"),
    ("re-exported name", "keys.py", "from dataclasses import dataclass", "from attrs import frozen as dataclass"),
    ("compile options", "scale.py", "--opt-level 3", "--opt-level 2"),
]  # fmt: skip

LAUNCH_EDITS: list[Edit] = [
    ("dispatch's body", "scale.py", "divide_up(tokens, 32)", "divide_up(tokens, 64)"),
    ("default of dispatch", "scale.py", 'dispatch(self, *, tokens: int, dtype: str = "bfloat16"',
     'dispatch(self, *, tokens: int, dtype: str = "float16"'),
    ("helper of dispatch", "tiles.py", "-(-dividend // divisor)", "dividend // divisor"),
    ("launch's body", "scale.py", "(x, 1.0)", "(x, 2.0)"),
    ("bounds", "scale.py", "(1, 65536)", "(1, 4096)"),
    ("supported values", "scale.py", '("bfloat16",)', '("bfloat16", "float16")'),
    ("key field", "scale.py", "full: bool", "full: int"),
    ("launcher", "scale.py", "    @kernel_launcher\n", ""),
]  # fmt: skip

IRRELEVANT_EDITS: list[Edit] = [
    ("comment", "scale_device.py", "# The body that matters.", "# Another remark."),
    ("comment at the end of a line", "arith.py", "return left * right * ONE", "return left * right * ONE  # yes"),
    ("blank lines on top", "scale_device.py", '"""Device', '\n\n\n"""Device'),
    ("docstring of a function", "arith.py", '    """Multiplies."""\n', ""),
    ("docstring of a module", "scale_device.py", '"""Device code:', '"""Code of the device:'),
    ("docstring of a class", "keys.py", "Order(enum.Enum):\n", 'Order(enum.Enum):\n    """An order."""\n\n'),
    ("formatting", "arith.py", "lane + _bias()", "(\n        lane\n        + _bias()\n    )"),
    ("spelling of a constant", "scale_device.py", "FACTOR = 2.0", "FACTOR = 2.00"),
    ("helper moved within its module", "tiles.py", "def nobody_calls_this() -> None:\n    return None\n",
     "def nobody_calls_this() -> None:\n    return None\n\n\nUNUSED = 1\n"),
    ("unrelated function of the same module", "scale.py", "return value + 1", "return value + 2"),
    ("unrelated function of a helper's module", "tiles.py", "return None", "return 5"),
    ("unrelated method of a base class", "base.py", "return 0", "return 1"),
    ("unrelated function of the device module", "scale_device.py", "return 3", "return 4"),
    ("reference", "scale.py", "return x * 2", "return x * 3"),
    ("required compiler", "scale.py", ">=4.8,<5", ">=4.7,<5"),
    ("new function", "scale.py", "STAGES = 2", "def helper() -> None:\n    return None\n\n\nSTAGES = 2"),
    ("new method", "scale.py", "    def reference", "    def extra(self):\n        return 0\n\n    def reference"),
    ("main block", "scale.py", "STAGES = 2", 'STAGES = 2\nif __name__ == "__main__":\n    print(STAGES)\n'),
    ("import for a type checker", "scale.py", "if TYPE_CHECKING:\n", "if TYPE_CHECKING:\n    import decimal\n"),
    ("unused import", "scale.py", "STAGES = 2", "import decimal\n\nSTAGES = 2"),
    ("unrelated file", "unrelated.py", '"""Reached', 'x = 1\n"""Reached'),
]  # fmt: skip


def _ids(edits: list[Edit]) -> list[str]:
    return [edit[0] for edit in edits]


@pytest.mark.parametrize("edit", DEVICE_EDITS, ids=_ids(DEVICE_EDITS))
def test_edit_of_device_code_is_seen(family: Sources, edit: Edit) -> None:
    """Case A7: an edited helper served the old binary."""
    before = family.device(KERNEL)
    family.edit(f"fakekernels/{edit[1]}", edit[2], edit[3])
    after = family.device(KERNEL)
    assert after.digest != before.digest
    assert after.parts != before.parts, "a report could not say what changed"


@pytest.mark.parametrize("edit", LAUNCH_EDITS, ids=_ids(LAUNCH_EDITS))
def test_edit_of_launch_code_is_seen(family: Sources, edit: Edit) -> None:
    """A pod with another dispatch would ask for keys that were made for other shapes."""
    before = family.launch(KERNEL)
    family.edit(f"fakekernels/{edit[1]}", edit[2], edit[3])
    assert family.launch(KERNEL).digest != before.digest


@pytest.mark.parametrize("edit", IRRELEVANT_EDITS, ids=_ids(IRRELEVANT_EDITS))
def test_irrelevant_edit_is_not_seen(family: Sources, edit: Edit) -> None:
    """Whatever cannot change an object or a launch must not cost a rebuild or a refused pod."""
    before = family.device(KERNEL), family.launch(KERNEL)
    family.edit(f"fakekernels/{edit[1]}", edit[2], edit[3])
    assert (family.device(KERNEL), family.launch(KERNEL)) == before


@pytest.mark.parametrize("edit", LAUNCH_EDITS[:6], ids=_ids(LAUNCH_EDITS[:6]))
def test_launch_code_is_not_in_the_device_fingerprint(family: Sources, edit: Edit) -> None:
    """An edit of dispatch must not rebuild objects (its helper `ceil_div` is shared with device code, so not here)."""
    if edit[0] == "helper of dispatch":
        family.edit("fakekernels/tiles.py", "return ceil_div(tile, multiple) * multiple", "return tile * multiple")
    before = family.device(KERNEL)
    family.edit(f"fakekernels/{edit[1]}", edit[2], edit[3])
    assert family.device(KERNEL) == before


@pytest.mark.parametrize("edit", DEVICE_EDITS[:12], ids=_ids(DEVICE_EDITS[:12]))
def test_device_code_is_not_in_the_launch_fingerprint(family: Sources, edit: Edit) -> None:
    """A fix in device code is shipped as objects; pods with the old class must go on binding."""
    before = family.launch(KERNEL)
    family.edit(f"fakekernels/{edit[1]}", edit[2], edit[3])
    assert family.launch(KERNEL) == before


def test_parts_name_the_definition_that_changed(family: Sources) -> None:
    """Case H1: a miss says which source changed, and only that."""
    before = family.device(KERNEL).parts
    family.edit("fakekernels/arith.py", "return 0", "return 1")
    after = family.device(KERNEL).parts
    assert {name for name in after if after[name] != before[name]} == {"fakekernels.arith:_bias"}


def test_order_of_two_assignments_is_seen(sources: Sources) -> None:
    """`HALF` is 1 or 2, with the same statements."""
    kernel = "class K(JitKernel):\n    @staticmethod\n    def kernel(key): return SIZE, HALF\n"
    sources.write({"sample/__init__.py": "", "sample/kernel.py": BASE + "SIZE = 1\nHALF = SIZE\nSIZE = 2\n" + kernel})
    before = sources.device()
    sources.write({"sample/kernel.py": BASE + "SIZE = 1\nSIZE = 2\nHALF = SIZE\n" + kernel})
    assert sources.device() != before


def test_moving_a_helper_changes_names_only(family: Sources) -> None:
    """A moved function costs one rebuild, and the report shows a move: the same digest under another name."""
    before = family.device(KERNEL).parts
    text = "def multiply(left: float, right: float) -> float:\n    return left * right * 1\n"
    family.edit("fakekernels/arith.py", "* ONE", "* 1")
    body = family.device(KERNEL).parts["fakekernels.arith:multiply"]
    family.write({"fakekernels/moved.py": text})
    family.edit(
        "fakekernels/scale_device.py",
        "from fakekernels.arith import multiply",
        "from fakekernels.moved import multiply",
    )
    after = family.device(KERNEL).parts
    assert after["fakekernels.moved:multiply"] == body
    assert "fakekernels.arith:multiply" in before
    assert "fakekernels.arith:multiply" not in after


def test_nothing_is_imported(family: Sources) -> None:
    """Device modules import the compiler, and importing runs code; the family's device module cannot be imported."""
    before = set(sys.modules)
    family.device(KERNEL)
    family.launch(KERNEL)
    assert {name for name in set(sys.modules) - before if not name.startswith("kernelforge")} == set()


def test_a_shared_tree_gives_the_same_answers(family: Sources) -> None:
    """A plan shares one tree; what one kernel looked up must not leak into the next."""
    tree = SourceTree()
    shared = [launch_fingerprint(KERNEL, tree), device_fingerprint(KERNEL, tree), device_fingerprint(KERNEL, tree)]
    assert shared == [family.launch(KERNEL), family.device(KERNEL), family.device(KERNEL)]


BASE = "from kernelforge.contract import JitKernel\n"

# (what is reached how, files, edited file): the edit turns `one` into `two`.
REACHED: list[tuple[str, dict[str, str], str]] = [
    ("conditional definition", {"kernel": """
try:
    from fast_math import sine
except ImportError:
    def sine(x): return "one"
class K(JitKernel):
    @staticmethod
    def kernel(key): return sine(key)
"""}, "kernel"),
    ("condition of a definition", {"kernel": """
import sys
if sys.platform == "one":
    SIZE = 1
else:
    SIZE = 2
class K(JitKernel):
    @staticmethod
    def kernel(key): return SIZE
"""}, "kernel"),
    ("second definition of a name", {"kernel": """
def f(): return 1
def f(): return "one"
class K(JitKernel):
    @staticmethod
    def kernel(key): return f()
"""}, "kernel"),
    ("global written elsewhere", {"kernel": """
SIZE = 1
def set_size():
    global SIZE
    SIZE = "one"
class K(JitKernel):
    @staticmethod
    def kernel(key): return SIZE
"""}, "kernel"),
    ("module used bare", {"kernel": """
from sample import table
class K(JitKernel):
    @staticmethod
    def kernel(key): return getattr(table, key.name)
""", "table": 'def anything(): return "one"\n'}, "table"),
    ("name computed on self", {"kernel": """
class K(JitKernel):
    @staticmethod
    def kernel(key): return 1
    def warmup_inputs(self, key): return getattr(self, key.name)()
    def anything(self): return "one"
"""}, "kernel"),
    ("globals()", {"kernel": """
def anything(): return "one"
class K(JitKernel):
    @staticmethod
    def kernel(key): return globals()[key.name]
"""}, "kernel"),
    ("super()", {"kernel": """
class Base(JitKernel):
    def warmup_inputs(self, key): return "one"
class K(Base):
    def warmup_inputs(self, key): return super().warmup_inputs(key)
"""}, "kernel"),
    ("override called by a base class", {"kernel": """
from sample.base import Base
class K(Base):
    def shape(self): return "one"
""", "base": BASE + """
class Base(JitKernel):
    def warmup_inputs(self, key): return self.shape()
    def shape(self): return 0
"""}, "kernel"),
    ("second base class", {"kernel": """
class Left(JitKernel): pass
class Right(JitKernel):
    def warmup_inputs(self, key): return "one"
class K(Left, Right): pass
"""}, "kernel"),
    ("attribute assigned by a method", {"kernel": """
class K(JitKernel):
    def prepare(self): self.shape = "one"
    def warmup_inputs(self, key): return self.shape
"""}, "kernel"),
    ("constructor", {"kernel": """
class K(JitKernel):
    def __init__(self, **options): super().__init__(**options); print("one")
    def warmup_inputs(self, key): return ()
"""}, "kernel"),
    ("looked-up attribute", {"kernel": """
class K(JitKernel):
    def warmup_inputs(self, key): return self.whatever
    def __getattr__(self, name): return "one"
"""}, "kernel"),
    ("registered by a decorator", {"kernel": """
BODIES = {}
def register(f): BODIES[f.__name__] = f; return f
@register
def body(): return "one"
class K(JitKernel):
    @staticmethod
    def kernel(key): return BODIES[key.name]
"""}, "kernel"),
    ("registered by a base class", {"kernel": """
from sample.bodies import Body
class K(JitKernel):
    @staticmethod
    def kernel(key): return Body.known[key.name]
""", "bodies": """
class Body:
    known = {}
    def __init_subclass__(cls): Body.known[cls.__name__] = cls
class First(Body):
    def run(self): return "one"
"""}, "bodies"),
    ("registered by a call", {"kernel": """
BODIES = {}
def body(): return "one"
BODIES["body"] = body
class K(JitKernel):
    @staticmethod
    def kernel(key): return BODIES[key.name]
"""}, "kernel"),
    ("class decorator sees all of the class", {"kernel": """
def complete(cls): cls.kernel = cls.hidden; return cls
@complete
class K(JitKernel):
    def hidden(key): return "one"
"""}, "kernel"),
    ("metaclass", {"kernel": """
class Meta(type):
    def __call__(cls, *args): return "one"
class Device(metaclass=Meta): pass
class K(JitKernel):
    @staticmethod
    def kernel(key): return Device()
"""}, "kernel"),
    ("import for its effect", {"kernel": """
import sample.patches
class K(JitKernel):
    @staticmethod
    def kernel(key): return 1
""", "patches": 'import math\nmath.tau = "one"\n'}, "patches"),
    ("import for its effect, in a function", {"kernel": """
class K(JitKernel):
    @staticmethod
    def kernel(key):
        import sample.patches
        return 1
""", "patches": 'import math\nmath.tau = "one"\n'}, "patches"),
    ("method registered by a decorator", {"kernel": """
BODIES = {}
def register(f): BODIES[f.__name__] = f; return f
class K(JitKernel):
    @staticmethod
    def kernel(key): return BODIES[key.name]
    @register
    def body(self): return "one"
"""}, "kernel"),
    ("registered by a metaclass", {"kernel": """
class Meta(type):
    known = {}
    def __init__(cls, name, bases, space): Meta.known[name] = cls
class First(metaclass=Meta):
    def run(self): return "one"
class K(JitKernel):
    @staticmethod
    def kernel(key): return Meta.known[key.name]
"""}, "kernel"),
    ("module's own getattr", {"kernel": """
from sample import lazy
class K(JitKernel):
    @staticmethod
    def kernel(key): return lazy.value
""", "lazy": 'def __getattr__(name): return "one"\n'}, "lazy"),
    ("star import", {"kernel": """
from sample.parts import *
class K(JitKernel):
    @staticmethod
    def kernel(key): return helper()
""", "parts": 'def helper(): return "one"\n'}, "parts"),
    ("relative import in a function", {"kernel": """
class K(JitKernel):
    @staticmethod
    def kernel(key):
        from .parts import helper as h
        return h()
""", "parts": 'def helper(): return "one"\n'}, "parts"),
    ("dotted import in a function", {"kernel": """
class K(JitKernel):
    @staticmethod
    def kernel(key):
        import sample.parts
        return sample.parts.helper()
""", "parts": 'def helper(): return "one"\n'}, "parts"),
    ("chain of re-exports", {"kernel": """
from sample import helper
class K(JitKernel):
    @staticmethod
    def kernel(key): return helper()
""", "__init__": "from .facade import *\n", "facade": "from .parts import helper as helper\n",
     "parts": 'def helper(): return "one"\n'}, "parts"),
    ("class of another module, read by member", {"kernel": """
import sample.parts as p
class K(JitKernel):
    @staticmethod
    def kernel(key): return p.Tool.run()
""", "parts": """
class Tool:
    def run(): return Tool._inner()
    def _inner(): return "one"
"""}, "parts"),
    ("quoted annotation", {"kernel": """
class Shape: size = "one"
class K(JitKernel):
    @staticmethod
    def kernel(key: "Shape"): return key
"""}, "kernel"),
    ("nested function's default", {"kernel": """
SIZE = "one"
class K(JitKernel):
    @staticmethod
    def kernel(key):
        def run(size=SIZE): return size
        return run
"""}, "kernel"),
    ("lambda", {"kernel": """
pick = lambda key: helper(key)
def helper(key): return "one"
class K(JitKernel):
    kernel = staticmethod(pick)
"""}, "kernel"),
    ("name of the class body", {"kernel": """
class K(JitKernel):
    size = "one"
    @staticmethod
    def kernel(key, size=size): return size
"""}, "kernel"),
    ("name of the class body in a decorator", {"kernel": """
class K(JitKernel):
    def wrap(f): return "one"
    @wrap
    def kernel(key): return 1
"""}, "kernel"),
    ("comprehension", {"kernel": """
def helper(x): return "one"
class K(JitKernel):
    @staticmethod
    def kernel(key): return [helper(x) for x in key]
"""}, "kernel"),
    ("base class that cannot be read", {"kernel": """
from vendor import Mixin
class K(Mixin, JitKernel):
    def warmup_inputs(self, key): return super().warmup_inputs(key)
    def called_by_the_mixin(self): return "one"
"""}, "kernel"),
    ("base class made by a call", {"kernel": """
def make_base(): return JitKernel
class K(make_base()):
    def called_by_the_base(self): return "one"
"""}, "kernel"),
    ("base class in a namespace package", {"kernel": """
import spaced.base
class K(spaced.base.Base):
    def shape(self): return "one"
""", "../spaced/base": BASE + """
class Base(JitKernel):
    def warmup_inputs(self, key): return self.shape()
"""}, "kernel"),
    ("number of an automatic enum member", {"kernel": """
import enum
class Mode(enum.Enum):
    EARLIER = "one"
    LATER = enum.auto()
class K(JitKernel):
    @staticmethod
    def kernel(key): return Mode.LATER
"""}, "kernel"),
    ("registered in a module that the package re-exports", {"kernel": """
from sample.table import BODIES
class K(JitKernel):
    @staticmethod
    def kernel(key): return BODIES[key.name]
""", "__init__": "from .bodies import body\n", "table": """
BODIES = {}
def register(f): BODIES[f.__name__] = f; return f
""", "bodies": """
from .table import register
@register
def body(): return "one"
"""}, "bodies"),
    ("class of the receiver", {"kernel": """
class K(JitKernel):
    def warmup_inputs(self, key): return self.__class__.hidden
    hidden = "one"
"""}, "kernel"),
]  # fmt: skip

UNREACHED: list[tuple[str, dict[str, str], str]] = [
    ("other function of an imported module", {"kernel": """
from sample import parts
class K(JitKernel):
    @staticmethod
    def kernel(key): return parts.helper()
""", "parts": 'def helper(): return 1\ndef other(): return "one"\n'}, "parts"),
    ("other member of a class", {"kernel": """
from sample.parts import Tool
class K(JitKernel):
    @staticmethod
    def kernel(key): return Tool.run()
""", "parts": 'class Tool:\n    def run(): return 1\n    def other(): return "one"\n'}, "parts"),
    ("overridden member of a base class", {"kernel": """
class Base(JitKernel):
    def warmup_inputs(self, key): return "one"
class K(Base):
    def warmup_inputs(self, key): return ()
"""}, "kernel"),
    ("re-exported sibling", {"kernel": """
class K(JitKernel):
    @staticmethod
    def kernel(key): return 1
""", "__init__": "from .kernel import K\nfrom .parts import Other\n",
     "parts": 'class Other:\n    x = "one"\n'}, "parts"),
    ("other kernel of the module", {"kernel": """
class K(JitKernel):
    @staticmethod
    def kernel(key): return 1
class Other(JitKernel):
    @staticmethod
    def kernel(key): return "one"
"""}, "kernel"),
    ("module-level instance", {"kernel": """
class K(JitKernel):
    @staticmethod
    def kernel(key): return 1
    def dispatch(self): return "one"
k = K()
"""}, "kernel"),
    ("effect of a module that only a type checker imports", {"kernel": """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import sample.parts
class K(JitKernel):
    @staticmethod
    def kernel(key): return 1
""", "parts": 'import math\nmath.tau = "one"\n'}, "parts"),
    ("other member beside a base class of a namespace package", {"kernel": """
import spaced.base
class K(spaced.base.Base):
    def dispatch(self): return "one"
""", "../spaced/base": BASE + "class Base(JitKernel): pass\n"}, "kernel"),
    ("decorated with a library's decorator", {"kernel": """
import functools
@functools.cache
def other(): return "one"
class K(JitKernel):
    @staticmethod
    def kernel(key): return 1
"""}, "kernel"),
]  # fmt: skip


def _write_sample(sources: Sources, files: Mapping[str, str], word: str, edited: str) -> None:
    texts = {"__init__": "", **files}
    texts["kernel"] = BASE + texts["kernel"]
    if word != "one":
        assert "one" in texts[edited]
        texts[edited] = texts[edited].replace('"one"', f'"{word}"')
    sources.write({f"sample/{name}.py": text for name, text in texts.items()})


@pytest.mark.parametrize(("files", "edited"), [row[1:] for row in REACHED], ids=[row[0] for row in REACHED])
def test_reached_code_is_seen(sources: Sources, files: dict[str, str], edited: str) -> None:
    """Case A7, for each way in which Python code reaches other code."""
    _write_sample(sources, files, "one", edited)
    before = sources.device()
    _write_sample(sources, files, "two", edited)
    assert sources.device().digest != before.digest


@pytest.mark.parametrize(("files", "edited"), [row[1:] for row in UNREACHED], ids=[row[0] for row in UNREACHED])
def test_unreached_code_is_not_seen(sources: Sources, files: dict[str, str], edited: str) -> None:
    """A fingerprint over whole files or packages would rebuild everything at any edit."""
    _write_sample(sources, files, "one", edited)
    before = sources.device()
    _write_sample(sources, files, "two", edited)
    assert sources.device() == before


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("import importlib\n        return importlib.import_module(key.name)", "importlib.import_module"),
        ("from importlib import import_module\n        return import_module(key.name)", "importlib.import_module"),
        ("return __import__(key.name)", "__import__"),
        ("import sys\n        return sys.modules[key.name]", "sys.modules"),
        ("return eval(key.name)", "eval"),
        ("exec(key.name)", "exec"),
        ("return K.__subclasses__()", "__subclasses__"),
    ],
)
def test_computed_code_is_refused(sources: Sources, body: str, named: str) -> None:
    """Code that is found by a computed name cannot be followed: an edit of it would serve the old binary."""
    sources.write(
        {
            "sample/__init__.py": "",
            "sample/kernel.py": f"{BASE}class K(JitKernel):\n    @staticmethod\n    def kernel(key):\n        {body}\n",
        }
    )
    with pytest.raises(SourceError, match=named) as caught:
        sources.device()
    assert "import statement" in caught.value.hint


def test_computed_code_that_is_not_reached_is_allowed(sources: Sources) -> None:
    """Only what the kernel reaches is held to this."""
    text = BASE + "def other(): return eval('1')\nclass K(JitKernel):\n    def kernel(key): return 1\n"
    sources.write({"sample/__init__.py": "", "sample/kernel.py": text})
    assert "sample.kernel:K.kernel" in sources.device().parts


def test_missing_project_module_is_named(sources: Sources) -> None:
    """A helper that cannot be read must not be left out in silence."""
    text = BASE + "from sample.gone import helper\nclass K(JitKernel):\n    def kernel(key): return helper()\n"
    sources.write({"sample/__init__.py": "", "sample/kernel.py": text})
    with pytest.raises(SourceError, match=r"sample\.gone"):
        sources.device()


def test_module_that_cannot_be_parsed_is_named_with_its_line(sources: Sources) -> None:
    """The user must find the line."""
    text = BASE + "from sample.broken import helper\nclass K(JitKernel):\n    def kernel(key): return helper()\n"
    sources.write({"sample/__init__.py": "", "sample/kernel.py": text, "sample/broken.py": "x = 1\ndef helper(:\n"})
    with pytest.raises(SourceError) as caught:
        sources.device()
    assert caught.value.where.endswith("broken.py:2")


@pytest.mark.parametrize(
    ("kernel", "problem"),
    [
        ("sample.kernel:Gone", "no class 'Gone'"),
        ("sample.gone:K", "no Python source"),
        ("sample.kernel", "no class ''"),
    ],
)
def test_kernel_that_is_not_there(sources: Sources, kernel: str, problem: str) -> None:
    """A typo in a manifest must not end in a KeyError."""
    sources.write({"sample/__init__.py": "", "sample/kernel.py": BASE + "class K(JitKernel): pass\n"})
    with pytest.raises(SourceError, match=problem):
        sources.device(kernel)


def test_kernel_in_a_single_file_module(sources: Sources) -> None:
    """A kernel need not be in a package; its neighbour on sys.path is its own project's code."""
    sources.write(
        {
            "lonely_kernel.py": BASE
            + "import lonely_helper\nclass K(JitKernel):\n    def kernel(key): return lonely_helper.f()\n",
            "lonely_helper.py": "def f(): return 1\n",
        }
    )
    before = sources.device("lonely_kernel:K")
    assert "lonely_helper:f" in before.parts
    sources.edit("lonely_helper.py", "return 1", "return 2")
    assert sources.device("lonely_kernel:K") != before


def test_namespace_packages(sources: Sources) -> None:
    """Packages without `__init__.py` have modules and no code of their own."""
    sources.write(
        {
            "spaced/kernels/k.py": BASE
            + "import spaced.tools.t\nclass K(JitKernel):\n    def kernel(key): return spaced.tools.t.f()\n",
            "spaced/tools/t.py": "def f(): return 1\n",
        }
    )
    assert "spaced.tools.t:f" in sources.device("spaced.kernels.k:K").parts


LIBRARY_USER = BASE + "import somelib\nclass K(JitKernel):\n    def kernel(key): return somelib.f()\n"


def test_installed_distribution_enters_by_version(sources: Sources) -> None:
    """Its content may hold anything; its version decides. Launches do not see it: CI and pod may differ there."""
    sources.write(
        {
            "sample/__init__.py": "",
            "sample/kernel.py": LIBRARY_USER + "    def dispatch(self): return somelib.f()\n",
            "somelib/__init__.py": "def f(): return 1\n",
            "Some_Lib-1.2.dist-info/RECORD": "somelib/__init__.py,sha256=x,1\n",
        }
    )
    device, launch = sources.device(), sources.launch()
    assert "dist:some-lib==1.2" in device.parts
    assert not any(name.startswith("dist:") for name in launch.parts)
    sources.edit("somelib/__init__.py", "return 1", "return 2")
    assert sources.device() == device
    shutil.move(sources.folder / "Some_Lib-1.2.dist-info", sources.folder / "Some_Lib-1.3.dist-info")
    assert sources.device() != device
    assert sources.launch() == launch


def test_editable_distribution_enters_by_content(sources: Sources) -> None:
    """Its files change without its version; it lies outside the folder with the record."""
    sources.write(
        {
            "sample/__init__.py": "",
            "sample/kernel.py": LIBRARY_USER,
            "somelib/__init__.py": "def f(): return 1\n",
            "somelib.egg-info/top_level.txt": "somelib\n",
            "elsewhere/somelib-1.2.dist-info/RECORD": "__editable__.somelib-1.2.pth,sha256=x,1\n",
        }
    )
    before = sources.device()
    assert "somelib:f" in before.parts
    sources.edit("somelib/__init__.py", "return 1", "return 2")
    assert sources.device() != before


def test_absent_distribution_is_recorded(sources: Sources) -> None:
    """A machine with and one without an optional library must not share objects; pods without torch must bind."""
    sources.write({"sample/__init__.py": "", "sample/kernel.py": LIBRARY_USER})
    without, launch = sources.device(), sources.launch()
    assert "absent:somelib" in without.parts
    sources.write({"somelib.py": "def f(): return 1\n", "somelib-1.dist-info/RECORD": "somelib.py,,\n"})
    assert sources.device() != without
    assert sources.launch() == launch


def test_compiler_and_standard_library_are_left_out(sources: Sources) -> None:
    """The compiler's versions are in the toolchain, and Python's minor version is no part of a key."""
    body = "import math, cutlass, tvm_ffi\nfrom cuda import driver\n"
    text = f"{BASE}{body}class K(JitKernel):\n    def kernel(key): return math.floor(cutlass.x), tvm_ffi.y, driver.z\n"
    sources.write({"sample/__init__.py": "", "sample/kernel.py": text})
    parts = sources.device().parts
    assert not [name for name in parts if name.startswith(("dist:", "absent:"))]
    assert {"sample.kernel:cutlass", "sample.kernel:math", "sample.kernel:driver"} <= set(parts)


@pytest.mark.parametrize("kernel", ["kernelforge.kernels.qk_norm:QkNorm", "kernelforge.kernels.rms_norm:RmsNorm"])
def test_built_in_kernels_stop_at_the_contract(kernel: str) -> None:
    """An edit of the package outside its kernel library must not rebuild kernels: the contract has a version."""
    for found in (device_fingerprint(kernel), launch_fingerprint(kernel)):
        modules = {name.partition(":")[0] for name in found.parts if name.startswith("kernelforge.")}
        assert all(name.startswith("kernelforge.kernels.") for name in modules)
        assert any(name.startswith("contract==") for name in found.parts)


def _other_pythons() -> Iterator[str]:
    for version in ("3.10", "3.11", "3.12", "3.13"):
        python = shutil.which(f"python{version}")
        if python and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            yield python


def test_python_versions_agree(family: Sources) -> None:
    """Keys are made in CI and checked in pods, under whatever Python each has (3.10 to 3.13, as far as installed)."""
    code = (
        "from kernelforge.fingerprint import device_fingerprint as d, launch_fingerprint as l\n"
        f"for k in ({KERNEL!r}, 'kernelforge.kernels.qk_norm:QkNorm', 'kernelforge.kernels.rms_norm:RmsNorm'):\n"
        "    print(d(k).digest, l(k).digest)"
    )
    environment = {"PYTHONPATH": os.pathsep.join((str(REPOSITORY), str(family.folder))), "PYTHONDONTWRITEBYTECODE": "1"}
    answers = {
        python: subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for python in (sys.executable, *_other_pythons())
    }
    assert len(set(answers.values())) == 1, answers
