"""Canonical bytes of syntax: what must not count, what must, and the trees of other Python versions."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from kernelforge.syntax import canonical_bytes


def bytes_of(source: str) -> bytes:
    return canonical_bytes(ast.parse(source))


SAME_CODE = [
    ("comments", "x = 1", "# why\nx = 1  # because"),
    ("blank lines", "x = 1\ny = 2", "\n\nx = 1\n\n\ny = 2\n"),
    ("parentheses", "x = a + b", "x = (\n    a\n    + b\n)"),
    ("quotes", "x = 'a'", 'x = """a"""'),
    ("escapes", r"x = 'a\x62'", "x = 'ab'"),
    ("literal spelling", "x = 1_000", "x = 0x3E8"),
    ("unicode prefix", "x = 'a'", "x = u'a'"),
    ("implicit joining", "x = 'ab'", "x = 'a' 'b'"),
    ("trailing comma", "f(a, b)", "f(a, b,)"),
    ("semicolons", "x = 1; y = 2", "x = 1\ny = 2"),
    ("type comment", "x = []", "x = []  # type: list[int]"),
    ("function docstring", "def f():\n    return 1", 'def f():\n    "Says."\n    return 1'),
    ("class docstring", "class C:\n    x = 1", 'class C:\n    """Says."""\n    x = 1'),
    ("module docstring", "x = 1", '"""Says."""\nx = 1'),
    ("docstring instead of pass", "def f():\n    pass", 'def f():\n    """Does nothing."""'),
    ("parenthesised with", "with a as b, c as d:\n    pass", "with (a as b, c as d):\n    pass"),
    ("joined f-string pieces", "x = f'a{b}cd'", "x = 'a' f'{b}c' 'd'"),
    ("empty f-string piece", "x = f'{b}'", "x = '' f'{b}' ''"),
    ("tabs", "if a:\n    b()", "if a:\n\tb()"),
]

OTHER_CODE = [
    ("int and float", "x = 1", "x = 1.0"),
    ("int and bool", "x = 1", "x = True"),
    ("int and str", "x = 1", "x = '1'"),
    ("str and bytes", "x = 'a'", "x = b'a'"),
    ("sign of zero", "x = 0.0", "x = -0.0"),
    ("float in its last digit", "x = 0.1", "x = 0.10000000000000002"),
    ("complex", "x = 1j", "x = 2j"),
    ("complex and float", "x = 1j", "x = 1.0"),
    ("none and ellipsis", "x = None", "x = ..."),
    ("names", "x = a", "x = b"),
    ("attribute", "x = a.b", "x = a.c"),
    ("operator", "x = a + b", "x = a - b"),
    ("grouping", "x = a + (b + c)", "x = (a + b) + c"),
    ("comparison", "x = a < b", "x = a <= b"),
    ("order of statements", "a()\nb()", "b()\na()"),
    ("order of arguments", "f(a, b)", "f(b, a)"),
    ("positional and keyword", "f(a)", "f(a=a)"),
    ("default value", "def f(a=1): pass", "def f(a=2): pass"),
    ("default and no default", "def f(a=None): pass", "def f(a): pass"),
    ("keyword-only", "def f(a): pass", "def f(*, a): pass"),
    ("positional-only", "def f(a, /): pass", "def f(a): pass"),
    ("which keyword has the default", "def f(*, a=1, b): pass", "def f(*, a, b=1): pass"),
    ("decorator", "@a\ndef f(): pass", "@b\ndef f(): pass"),
    ("annotation", "def f(a: int): pass", "def f(a: float): pass"),
    ("returned annotation", "def f() -> int: pass", "def f(): pass"),
    ("base class", "class C(A): pass", "class C(B): pass"),
    ("class keyword", "class C(metaclass=A): pass", "class C(A): pass"),
    ("async", "async def f(): pass", "def f(): pass"),
    ("list and tuple", "x = [a]", "x = (a,)"),
    ("set and dict", "x = {a}", "x = {a: a}"),
    ("dict unpacking", "x = {**a}", "x = {None: a}"),
    ("import level", "from . import a", "from .. import a"),
    ("import name", "import a as b", "import c as b"),
    ("annotated name and expression", "x: int = 1", "(x): int = 1"),
    ("string in the middle is no docstring", "def f():\n    x\n    'a'", "def f():\n    x\n    'b'"),
    ("f-string conversion", "x = f'{a!r}'", "x = f'{a!s}'"),
    ("f-string format", "x = f'{a:>4}'", "x = f'{a:<4}'"),
    ("f-string text", "x = f'{a}b'", "x = f'{a}c'"),
    ("f-string and string", "x = f'a'", "x = 'a'"),
    ("global", "def f():\n    global a\n    a = 1", "def f():\n    nonlocal_ = 1\n    a = 1"),
    ("match singleton", "match a:\n    case None: pass", "match a:\n    case True: pass"),
    ("loop else", "for a in b:\n    c()\nelse:\n    d()", "for a in b:\n    c()\nd()"),
    ("del and read", "del a", "a"),
    ("assign and walrus", "a = b", "(a := b)"),
]


@pytest.mark.parametrize(("left", "right"), [row[1:] for row in SAME_CODE], ids=[row[0] for row in SAME_CODE])
def test_equal_code_has_equal_bytes(left: str, right: str) -> None:
    """Formatting must not cost a rebuild."""
    assert bytes_of(left) == bytes_of(right)


@pytest.mark.parametrize(("left", "right"), [row[1:] for row in OTHER_CODE], ids=[row[0] for row in OTHER_CODE])
def test_other_code_has_other_bytes(left: str, right: str) -> None:
    """Two different programs must never share a key."""
    assert bytes_of(left) != bytes_of(right)


def test_bytes_cannot_be_split_in_two_ways() -> None:
    """Without lengths, names that run into each other would make two programs look the same."""
    assert bytes_of("f(ab, c)") != bytes_of("f(a, bc)")
    assert bytes_of("def f(a): b") != bytes_of("def f(): a; b")


def test_fields_of_a_later_version_count_when_they_say_something() -> None:
    """Python 3.12 gave functions `type_params`: empty they are the tree of 3.11, `def f[T](a)` is another function."""
    function = ast.parse("def f(a): return a").body[0]
    fields = {name: getattr(function, name, None) for name in ast.FunctionDef._fields if name != "type_params"}
    kind: Any = type("FunctionDef", (ast.FunctionDef,), {"_fields": (*fields, "type_params")})
    assert canonical_bytes(kind(**fields, type_params=[])) == canonical_bytes(function)
    assert canonical_bytes(kind(**fields, type_params=[ast.Name("T", ast.Load())])) != canonical_bytes(function)


def test_f_strings_of_all_parsers_are_one() -> None:
    """3.12.0 put empty constants into format specs; how literals are merged differs as well."""

    def f_string(*values: ast.expr, spec: ast.expr | None = None) -> bytes:
        formatted = ast.FormattedValue(ast.Name("a", ast.Load()), -1, spec)
        return canonical_bytes(ast.JoinedStr([*values, formatted]))

    empty = ast.JoinedStr([ast.Constant("")])
    wide = ast.JoinedStr([ast.Constant(">4"), ast.Constant("")])
    assert f_string() == f_string(ast.Constant("")) == f_string(spec=empty) == f_string(spec=ast.JoinedStr([]))
    assert f_string(ast.Constant("a"), ast.Constant("b")) == f_string(ast.Constant("ab"))
    assert f_string(spec=wide) == f_string(spec=ast.JoinedStr([ast.Constant(">4")])) != f_string()


def test_bytes_are_frozen() -> None:
    """Vector: whoever changes the encoding must notice, and raise FINGERPRINT_VERSION."""
    assert bytes_of("x = f(1, y=None)") == (
        b"n186:s6:Modules4:bodyl165:n160:s6:Assigns7:targetsl20:n16:s4:Names2:ids1:x"
        b"s5:valuen104:s4:Calls4:argsl7:c4:i1:1s4:funcn16:s4:Names2:ids1:f"
        b"s8:keywordsl38:n34:s7:keywords3:args1:ys5:valuec3:n0:"
    )
