"""YAML text as plain values, with the line and column of each.

Nothing of the text is executed: only the tags of plain data are known, and what aliases expand to is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from understudy.messages import JsonValue

from .environment import fill_in, is_bound_later, mentions_environment
from .problems import Place, Problem

Path: TypeAlias = tuple[str | int, ...]
"""Keys and positions that lead from the top of a document to a value."""

MAX_BYTES = 5_000_000  # A thousand times the largest spec seen; more is another kind of file.
MAX_VALUES = 100_000  # Aliases make a page of text expand to billions of values.
MAX_DEPTH = 50  # A spec needs six levels; Python's stack ends at a few hundred.

MERGE = "tag:yaml.org,2002:merge"
STRING = "tag:yaml.org,2002:str"


@dataclass(slots=True)
class Document:
    """A YAML document, converted.

    Attributes:
        source: the file, or `<text>`.
        value: None, booleans, numbers, strings, lists, and dictionaries with string keys.
        problems: what was wrong with the text; the value lacks what they are about.
        places: where each value starts.
        key_places: where the key of each entry of a mapping starts.
        scalars: numbers, strings and the like as they stand in the text.
    """

    source: str
    value: JsonValue = None
    problems: list[Problem] = field(default_factory=list[Problem])
    places: dict[Path, Place] = field(default_factory=dict[Path, Place])
    key_places: dict[Path, Place] = field(default_factory=dict[Path, Place])
    scalars: dict[Path, str] = field(default_factory=dict[Path, str])

    def place(self, path: Path) -> Place:
        """Return where the value at `path` starts, or the innermost value around it that exists."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))

    def problem(self, place: Place, message: str) -> Problem:
        """Make a problem of this document."""
        return Problem(self.source, place, message)

    def key_place(self, path: Path) -> Place:
        """Return where the key of the entry at `path` starts, or the place of its value if it has none."""
        return self.key_places.get(path) or self.place(path)


class NotUtf8(ValueError):
    """Bytes that are no text; says which, and has their place."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.place = place


def decode(data: bytes) -> str:
    """Return the text of a file: UTF-8, with or without a byte-order mark.

    Raises:
        NotUtf8: it is none.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        found = f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise NotUtf8(found, _place_of_offset(before, len(before))) from None


def read_document(text: str, source: str, environment: Mapping[str, str]) -> Document:
    """Convert one YAML document. What is wrong with it stands in `problems`; nothing is raised."""
    document = Document(source)
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        found = f"the spec has {size:,} bytes; expected at most {MAX_BYTES:,}"
        document.problems.append(document.problem(Place(1, 1), found))
        return document
    text = text.removeprefix("\ufeff")
    try:
        node = _Composer(text).get_single_node()
    except yaml.YAMLError as error:
        document.problems.append(document.problem(*_explain(error, text)))
        return document
    if node is not None:
        _Converter(document, environment).run(node)
    return document


class _TooMuch(yaml.MarkedYAMLError):
    """The text is deeper than a spec may be, or expands to more."""


class _Composer(yaml.SafeLoader):
    """Makes the tree of nodes, which know their places, and stops early where there is too much of it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._count = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Compose one node and what is below it."""
        self._depth += 1
        self._count += 1
        if parent is not None and (self._depth > MAX_DEPTH or self._count > MAX_VALUES):
            raise _TooMuch(problem=_too_much(self._depth), problem_mark=parent.start_mark)
        node: Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _too_much(depth: int) -> str:
    if depth > MAX_DEPTH:
        return f"this is nested more than {MAX_DEPTH} levels deep"
    return f"this goes beyond {MAX_VALUES:,} values, aliases expanded; a spec needs no more"


class _Converter:
    def __init__(self, document: Document, environment: Mapping[str, str]) -> None:
        self._document = document
        self._environment = environment
        self._scalars = yaml.constructor.SafeConstructor()
        self._open: list[Node] = []  # what is being converted, from the top; an alias to one of these never ends
        self._count = 0

    def run(self, node: Node) -> None:
        try:
            self._document.value = self._value(node, ())
        except _TooMuch as error:
            self._document.problems.append(self._document.problem(*_explain(error, "")))

    def _problem(self, node: Node, message: str) -> None:
        self._document.problems.append(self._document.problem(_start(node), message))

    def _value(self, node: Node, path: Path) -> JsonValue:
        self._document.places[path] = _start(node)
        self._count += 1
        if self._count > MAX_VALUES or len(path) > MAX_DEPTH:
            raise _TooMuch(problem=_too_much(len(path)), problem_mark=node.start_mark)
        if any(node is one for one in self._open):
            self._problem(node, "this is inside what the alias stands for, and would never end")
            return None
        self._open.append(node)
        try:
            return self._convert(node, path)
        finally:
            self._open.pop()

    def _convert(self, node: Node, path: Path) -> JsonValue:
        if isinstance(node, MappingNode) and node.tag.endswith(":map"):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and node.tag.endswith(":seq"):
            return [self._value(item, (*path, position)) for position, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            node = self._filled(node, path)
            convert = self._converters().get(node.tag)
            if convert is not None:
                return self._scalar(node, path, convert)
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        self._problem(node, f"the tag {tag} is not allowed here; expected plain text, numbers, lists and mappings")
        return None

    def _filled(self, node: ScalarNode, path: Path) -> ScalarNode:
        """Return the scalar with the environment's values in place; one that is nothing else is read as YAML reads them."""
        if not mentions_environment(node.value):
            return node
        filled = fill_in(node.value, self._environment, bound_later=is_bound_later(path))
        for problem in filled.problems:
            self._problem(node, problem)
        tag = node.tag
        if filled.is_whole and node.style is None and tag == STRING:
            tag = _tag_of(filled.text)
        return ScalarNode(tag, filled.text, node.start_mark, node.end_mark, node.style)

    def _converters(self) -> dict[str, Callable[[ScalarNode], JsonValue]]:
        make = self._scalars
        kinds: dict[str, Callable[[ScalarNode], JsonValue]] = {
            "str": lambda node: str(node.value),
            "timestamp": lambda node: str(node.value),  # JSON knows no dates
            "value": lambda node: str(node.value),  # a plain `=`
            "null": lambda _: None,
            "bool": make.construct_yaml_bool,
            "int": make.construct_yaml_int,
            "float": make.construct_yaml_float,
        }
        return {f"tag:yaml.org,2002:{kind}": convert for kind, convert in kinds.items()}

    def _scalar(self, node: ScalarNode, path: Path, convert: Callable[[ScalarNode], JsonValue]) -> JsonValue:
        self._document.scalars[path] = str(node.value)
        try:
            value = convert(node)
        except (ValueError, KeyError, IndexError):  # PyYAML looks at the first character of `!!int` without text
            self._problem(node, f"{_short(node.value)} is not what its tag says")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._problem(node, f"{node.value} is not a finite number")
            return None
        return value

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, JsonValue]:
        made: dict[str, JsonValue] = {}
        for source in [value for key, value in node.value if key.tag == MERGE]:
            made = self._merged(source, path) | made  # YAML 1.1, merge keys: earlier sources and own keys win
        self._document.places[path] = _start(node)  # the sources left theirs
        seen: dict[str, Place] = {}
        for key, value in node.value:
            if key.tag == MERGE:
                continue
            if not isinstance(key, ScalarNode):
                self._problem(key, "a key must be text, got a list or a mapping")
            elif key.value in seen:
                self._problem(key, f"the key {_short(key.value)} stands twice, first in line {seen[key.value].line}")
            else:
                seen[key.value] = self._document.key_places[(*path, key.value)] = _start(key)
                made[key.value] = self._value(value, (*path, key.value))
        return made

    def _merged(self, source: Node, path: Path) -> dict[str, JsonValue]:
        if isinstance(source, SequenceNode):
            made: dict[str, JsonValue] = {}
            for one in source.value:
                made = self._merged(one, path) | made
            return made
        taken = self._value(source, path)
        if isinstance(taken, dict):
            return taken
        self._problem(source, "'<<' takes a mapping, or a list of mappings")
        return {}


def _tag_of(text: str) -> str:
    """Return the tag that plain text has, in YAML: that of a number, if it is one."""
    resolver: Any = yaml.resolver.Resolver()  # its stubs say nothing
    return str(resolver.resolve(ScalarNode, text, (True, False)))


def _start(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _place_of_offset(text: str, offset: int) -> Place:
    before = text[:offset]
    return Place(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def _explain(error: yaml.YAMLError, text: str) -> tuple[Place, str]:
    """Say where the text is not YAML, and why."""
    if isinstance(error, ReaderError):
        place = _place_of_offset(text, error.position)
        return place, f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return Place(1, 1), f"this is not YAML: {error}"
    mark = error.problem_mark
    place = Place(mark.line + 1, mark.column + 1)
    if isinstance(error, _TooMuch):
        return place, str(error.problem)
    if "\\t" in str(error.problem):
        return place, "a tab cannot indent YAML; use spaces"
    context = "" if error.context is None else f" ({error.context})"
    return place, f"this is not YAML: {error.problem}{context}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
