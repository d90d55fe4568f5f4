"""The YAML reader by itself: lines, and the same answers from both of PyYAML's parsers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from kernelforge.manifest import yaml_node
from kernelforge.manifest.problems import Problems
from kernelforge.manifest.yaml_node import Node, parse_yaml

DOCUMENT = """\
# A comment, so that nothing starts in line 1.
text: "a
  b"
block: |
  c
list:
- 1
- [2, {three: 3}]
folded:
  deep: {x: y,
         z: w}
empty:
"""


def lines_of(node: Node) -> Iterator[tuple[int, int, object]]:
    if node.items or node.entries:
        for child in (*node.items, *node.entries.values()):
            yield child.key_line, child.place.line, None if child.items or child.entries else child.value
            yield from lines_of(child)


@pytest.fixture(params=["SafeLoader", "CSafeLoader"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(yaml, request.param):
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(yaml_node, "_LOADER", getattr(yaml, request.param))


@pytest.mark.usefixtures("parser")
def test_every_value_knows_its_line_and_that_of_its_key() -> None:
    problems = Problems("f")
    node = parse_yaml(DOCUMENT, "f", problems)
    assert node is not None
    assert list(lines_of(node)) == [
        (2, 2, "a b"),
        (4, 4, "c\n"),
        (6, 6, None),
        (0, 7, 1),
        (0, 8, None),
        (0, 8, 2),
        (0, 8, None),
        (8, 8, 3),
        (9, 9, None),
        (10, 10, None),
        (10, 10, "y"),
        (11, 11, "w"),
        (12, 12, None),
    ]
    assert len(problems) == 0


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: ! c", 2),
        ("a: !!python/name:os.system", 1),
        ("a: 1\nb: &x c", 2),
        ("a: 1\n--- b", 2),
        ("a: 1\na: 2", 2),
        ("a: 1\n? [b]\n: c", 2),
        ("a: 1\nb: [", 2),
        ("a: 1\nb: 'c", 2),
        ("a: 1\nb: c: d", 2),
        ("a: 1\n\tb: 2", 2),
        ("a: 010", 1),
        ("a:\n  " + "[" * 30 + "]" * 30, 2),
    ],
)
def test_both_parsers_refuse_the_same(text: str, line: int) -> None:
    """libyaml drops the tag `!`, and a pod's PyYAML may lack libyaml: neither may accept more than the other."""
    problems = Problems("f")
    parse_yaml(text, "f", problems)
    (problem,) = problems.error().problems
    assert problem.line == line


@pytest.mark.usefixtures("parser")
def test_a_refused_value_keeps_its_place_and_says_so() -> None:
    node = parse_yaml("a: !x 1\nb: 2", "f", Problems("f"))
    assert node is not None
    assert [(key, child.refused, child.value) for key, child in node.entries.items()] == [
        ("a", True, None),
        ("b", False, 2),
    ]
