"""Reads YAML into values that know their line: one document of mappings with text keys, lists and scalars, no more.

Built on the parser's events, not on its constructors: a tag or an alias is refused as it passes by, before any value
exists, and depth and size are bounded while reading. So no tag can run code and no alias can multiply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from kernelforge.manifest.problems import Place, Problems
from kernelforge.manifest.text_file import read_text
from kernelforge.manifest.yaml_scalar import Refused, Scalar, resolve

# Our largest deployment has about 600 nodes in 12 KiB, nested 6 deep.
SIZE_LIMIT_BYTES = 1024 * 1024
_DEPTH_LIMIT = 20
_NODE_LIMIT = 50_000
# libyaml's parser where PyYAML was built with it: ten times faster, the same events.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands.

    ``value`` is a scalar, a tuple of nodes, or a dict of nodes by key. ``key_line`` is the line of its key, if it has
    one. ``spelling`` is an unquoted scalar as written. A ``refused`` node was reported already: say no more of it.
    """

    place: Place
    value: Scalar | tuple[Node, ...] | Mapping[str, Node]
    key_line: int = 0
    spelling: str = ""
    refused: bool = False

    @property
    def key_place(self) -> Place:
        return Place(self.place.file, self.key_line or self.place.line)

    @property
    def entries(self) -> Mapping[str, Node]:
        """The nodes of a mapping; nothing for any other node."""
        return self.value if isinstance(self.value, Mapping) else {}

    @property
    def items(self) -> tuple[Node, ...]:
        """The nodes of a list; nothing for any other node."""
        return self.value if isinstance(self.value, tuple) else ()

    def data(self) -> Any:
        """Plain dicts, lists and scalars."""
        if isinstance(self.value, Mapping):
            return {key: node.data() for key, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.data() for node in self.value]
        return self.value


def read_yaml(path: Path, problems: Problems, *, named_at: Place | None = None) -> Node | None:
    """The file's one document, or None after adding problems. A node with problems of its own is left in, refused."""
    text = read_text(path, problems, limit_bytes=SIZE_LIMIT_BYTES, named_at=named_at)
    return None if text is None else parse_yaml(text, str(path), problems)


def parse_yaml(text: str, file: str, problems: Problems) -> Node | None:
    """As ``read_yaml``, from a text."""
    unprintable = _UNPRINTABLE.search(text)
    if unprintable:
        place = Place(file, text.count("\n", 0, unprintable.start()) + 1)
        problems.add(place, f"{unprintable.group()!r} is no printable character", hint="is this a text file?")
        return None
    composer = _Composer(text, file, problems)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        _add_syntax_problem(error, text, file, problems)
        return None
    except _TooMuch as limit:
        problems.add(limit.place, limit.what, hint="a manifest is small: is this the file that you meant?")
        return None
    if composer.root is None:
        problems.add(Place(file, 1), "the file holds no value", hint="see specs/README.md for what belongs in it")
    return composer.root


class _TooMuch(Exception):
    def __init__(self, place: Place, what: str) -> None:
        super().__init__(what)
        self.place = place
        self.what = what


@dataclass
class _Open:
    """A list or mapping whose end has not been reached; in a mapping keys and values take turns."""

    start: Node
    is_mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)
    key: Node | None = None

    def take(self, node: Node, problems: Problems) -> None:
        if not self.is_mapping:
            self.items.append(node)
        elif self.key is None:
            self.key = node
        else:
            self._add_entry(self.key, node, problems)
            self.key = None

    def close(self) -> Node:
        return replace(self.start, value=self.entries if self.is_mapping else tuple(self.items))

    def _add_entry(self, key: Node, node: Node, problems: Problems) -> None:
        if key.refused:
            return
        if not isinstance(key.value, str):
            written = key.spelling or "a list or mapping"
            problems.add(key.place, f"{written} cannot be a key", hint=f'keys are text: "{key.spelling or "name"}"')
        elif key.value in self.entries:
            first = self.entries[key.value].key_line
            problems.add(key.place, f"{key.value} is given twice, first in line {first}", hint="keep one of them")
        else:
            # A list, a mapping and a missing value start where nobody looks for them: show the line of their key.
            has_own_line = bool(node.spelling) or isinstance(node.value, str)
            place = node.place if has_own_line else key.place
            self.entries[key.value] = replace(node, place=place, key_line=key.place.line)


class _Composer:
    def __init__(self, text: str, file: str, problems: Problems) -> None:
        self.root: Node | None = None
        self._text = text
        self._file = file
        self._problems = problems
        self._open: list[_Open] = []
        self._nodes = 0
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        place = Place(self._file, event.start_mark.line + 1 if event.start_mark else 1)
        if isinstance(event, yaml.DocumentStartEvent):
            self._start_document(event, place)
        elif self._documents > 1:
            return  # reported where it started
        elif isinstance(event, yaml.CollectionStartEvent):
            self._count(place)
            start = Node(place, value=None, refused=self._is_refused(event, place))
            self._open.append(_Open(start, isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._add(self._open.pop().close())
        elif isinstance(event, yaml.ScalarEvent):
            self._count(place)
            self._add(self._scalar(event, place))
        elif isinstance(event, yaml.AliasEvent):
            self._problems.add(
                place, f"*{event.anchor} is an alias", hint="write the value out; aliases are not supported"
            )
            self._add(Node(place, value=None, refused=True))

    def _start_document(self, event: yaml.DocumentStartEvent, place: Place) -> None:
        self._documents += 1
        if self._documents > 1:
            self._problems.add(
                place, "a second document starts here", hint="one file holds one document: delete the ---"
            )
        if event.version or event.tags:
            self._problems.add(place, "a % directive is not supported", hint="delete the line that starts with %")

    def _count(self, place: Place) -> None:
        self._nodes += 1
        if self._nodes > _NODE_LIMIT:
            raise _TooMuch(place, f"the file holds more than {_NODE_LIMIT:,} values")
        if len(self._open) > _DEPTH_LIMIT:
            raise _TooMuch(place, f"values are nested more than {_DEPTH_LIMIT} deep")

    def _is_refused(self, event: yaml.NodeEvent, place: Place) -> bool:
        if event.anchor is not None:
            hint = "delete it; anchors and aliases are not supported"
            self._problems.add(place, f"&{event.anchor} is an anchor", hint=hint)
        # libyaml drops the tag `!` of a scalar, so look at the text as well.
        mark = event.start_mark if isinstance(event, yaml.ScalarEvent) else None
        is_bare = mark is not None and self._text.startswith("!", mark.index)
        tag = getattr(event, "tag", None) or ("!" if is_bare else None)
        if tag is not None:
            hint = "write plain YAML: text, numbers, true, false, lists and mappings"
            written = tag.replace("tag:yaml.org,2002:", "!!", 1)
            self._problems.add(place, f"the tag {written} is not supported", hint=hint)
        return tag is not None

    def _scalar(self, event: yaml.ScalarEvent, place: Place) -> Node:
        if self._is_refused(event, place):
            return Node(place, value=None, refused=True)
        if not event.implicit[0]:
            return Node(place, event.value)
        try:
            return Node(place, resolve(event.value), spelling=event.value)
        except Refused as refused:
            self._problems.add(place, refused.what, hint=refused.hint)
            return Node(place, value=None, spelling=event.value, refused=True)

    def _add(self, node: Node) -> None:
        if self._open:
            self._open[-1].take(node, self._problems)
        else:
            self.root = node


def _add_syntax_problem(error: yaml.MarkedYAMLError, text: str, file: str, problems: Problems) -> None:
    lines = text.splitlines() or [""]
    mark = error.problem_mark or error.context_mark
    # An unclosed bracket is noticed one line after the last.
    line = min(mark.line + 1, len(lines)) if mark else 1
    indentation = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
    hint = "check indentation, colons, brackets and quotes"
    hint = "indent with spaces, not with tabs" if "\t" in indentation else hint
    if error.context_mark and error.context_mark.line + 1 < line:
        hint += f", from line {error.context_mark.line + 1} on"
    problems.add(Place(file, line), f"not valid YAML: {error.problem or error.context}", hint=hint)
