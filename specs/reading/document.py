"""Reads YAML text into plain values, and keeps the line and column of each value.

The text cannot execute code: only tags of plain data are accepted, and the values that aliases expand to are counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import yaml
from yaml.events import AliasEvent, CollectionStartEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from understudy.vocabulary.messages import JsonValue

from .environment import fill_in, is_bound_later, mentions_environment
from .problems import Place, Problem, short
from .yaml_errors import Refused, explain, place_of_mark, place_of_offset

Path: TypeAlias = tuple[str | int, ...]
"""The keys and positions from the top of a document down to a value."""

MAX_BYTES = 5_000_000  # A thousand times the largest known spec; a larger file is not a spec.
MAX_VALUES = 100_000  # With aliases, a page of text can expand to billions of values.
MAX_CHARACTERS = 4 * MAX_BYTES  # Aliases can repeat one long text many times, and every copy is scanned.
MAX_DEPTH = 50  # A spec needs six levels; Python's stack ends at a few hundred.
MAX_DIGITS = 100  # Parsing takes quadratic time: a million digits with colons (YAML 1.1) would never end.
MAX_NUMBER = 2**63  # Every JSON reader accepts numbers up to this.

MERGE = "tag:yaml.org,2002:merge"
STRING = "tag:yaml.org,2002:str"
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(slots=True)
class Document:
    """A YAML document, converted.

    Attributes:
        source: the file, or `<text>`.
        value: None, booleans, numbers, strings, lists, and dictionaries with string keys.
        problems: problems of the text; `value` lacks the parts that have a problem.
        places: the start of each value.
        key_places: the start of the key of each entry of a mapping.
        scalars: numbers, strings and the like, exactly as the text has them.
    """

    source: str
    value: JsonValue = None
    problems: list[Problem] = field(default_factory=list[Problem])
    places: dict[Path, Place] = field(default_factory=dict[Path, Place])
    key_places: dict[Path, Place] = field(default_factory=dict[Path, Place])
    scalars: dict[Path, str] = field(default_factory=dict[Path, str])

    def place(self, path: Path) -> Place:
        """Return the start of the value at `path`, or of the innermost existing value around it."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))

    def problem(self, place: Place, message: str) -> Problem:
        """Make a problem of this document."""
        return Problem(self.source, place, message)

    def key_place(self, path: Path) -> Place:
        """Return the start of the key of the entry at `path`, or of its value if it has no key."""
        return self.key_places.get(path) or self.place(path)


class NotUtf8(ValueError):
    """Bytes that are not UTF-8 text; the message shows them, `place` is their position."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.place = place


def decode(data: bytes) -> str:
    """Return the text of a file: UTF-8, with or without a byte-order mark.

    Raises:
        NotUtf8: the bytes are not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        found = f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise NotUtf8(found, place_of_offset(before, len(before))) from None


def read_document(text: str, source: str, environment: Mapping[str, str]) -> Document:
    """Convert one YAML document. Mistakes in it are listed in `problems`; nothing is raised."""
    document = Document(source)
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        found = f"the spec has {size:,} bytes; expected at most {MAX_BYTES:,}"
        document.problems.append(document.problem(Place(1, 1), found))
        return document
    text = text.removeprefix("\ufeff")
    try:
        node = _composed(text)
    except yaml.YAMLError as error:
        document.problems.append(document.problem(*explain(error, text)))
        return document
    if node is not None:
        _Converter(document, environment).run(node)
    return document


def _composed(text: str) -> Node | None:
    composer = _Composer(text)  # the constructor already checks the characters
    try:
        node: Node | None = composer.get_single_node()
    except (
        ValueError,
        OverflowError,
    ) as error:  # PyYAML raises these for "\\UFFFFFFFF", and for a %YAML with endless digits
        raise Refused(problem=f"this cannot be read: {error}", problem_mark=composer.get_mark()) from None
    return node


class _Composer(yaml.SafeLoader):
    """Makes the tree of nodes, each with its place, and stops early when the tree is too large or too deep."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._open: list[str | None] = []  # anchors of the nodes under construction, outermost first
        self._count = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Compose one node and the nodes below it."""
        reader: Any = self  # PyYAML's stubs do not type these attributes
        event = reader.peek_event()
        anchor: str | None = event.anchor if isinstance(event, (AliasEvent, CollectionStartEvent)) else None
        if isinstance(event, AliasEvent) and anchor in self._open:
            found = f"the alias '*{anchor}' stands inside of what it stands for, and would never end"
            raise Refused(problem=found, problem_mark=reader.peek_event().start_mark)
        self._open.append(anchor)
        self._count += 1
        if parent is not None and (len(self._open) > MAX_DEPTH or self._count > MAX_VALUES):
            raise Refused(problem=_too_much(len(self._open)), problem_mark=parent.start_mark)
        node: Node | None = super().compose_node(parent, index)
        self._open.pop()
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
        self._characters = 0
        self._count = 0

    def run(self, node: Node) -> None:
        try:
            self._document.value = self._value(node, ())
        except Refused as error:
            self._document.problems.append(self._document.problem(*explain(error, "")))

    def _problem(self, node: Node, message: str) -> None:
        self._document.problems.append(self._document.problem(_start(node), message))

    def _value(self, node: Node, path: Path) -> JsonValue:
        self._document.places[path] = _start(node)
        self._count += 1
        if self._count > MAX_VALUES or len(path) > MAX_DEPTH:
            raise Refused(problem=_too_much(len(path)), problem_mark=node.start_mark)
        if isinstance(node, MappingNode) and node.tag.endswith(":map"):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and node.tag.endswith(":seq"):
            return [self._value(item, (*path, position)) for position, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            self._characters += len(node.value)
            if self._characters > MAX_CHARACTERS:
                found = f"this goes beyond {MAX_CHARACTERS:,} characters, aliases expanded; a spec needs no more"
                raise Refused(problem=found, problem_mark=node.start_mark)
            node = self._filled(node, path)
            convert = self._converters().get(node.tag)
            if convert is not None:
                return self._scalar(node, path, convert)
        self._refuse_tag(node)
        return None

    def _refuse_tag(self, node: Node) -> None:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        self._problem(node, f"the tag {tag} is not allowed here; expected plain text, numbers, lists and mappings")

    def _filled(self, node: ScalarNode, path: Path) -> ScalarNode:
        """Fill in the environment's values; a scalar that is only such a value gets its type by the rules of YAML."""
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
            "timestamp": lambda node: str(node.value),  # JSON has no dates
            "value": lambda node: str(node.value),  # a plain `=`
            "null": lambda _: None,
            "bool": make.construct_yaml_bool,
            "int": make.construct_yaml_int,
            "float": make.construct_yaml_float,
        }
        return {f"tag:yaml.org,2002:{kind}": convert for kind, convert in kinds.items()}

    def _scalar(self, node: ScalarNode, path: Path, convert: Callable[[ScalarNode], JsonValue]) -> JsonValue:
        self._document.scalars[path] = str(node.value)
        if SURROGATE.search(node.value):
            self._problem(
                node, "this has half a character, such as '\\ud83d'; write the whole one, such as '\\U0001F600'"
            )
            return None
        try:
            value = None if node.tag in NUMBERS and len(node.value) > MAX_DIGITS else convert(node)
        except (ValueError, KeyError, IndexError):  # PyYAML reads the first character of an empty `!!int`
            self._problem(node, f"{short(node.value)} is not what its tag says")
            return None
        except OverflowError:
            value = math.inf
        if isinstance(value, float) and not math.isfinite(value):
            self._problem(node, f"{node.value} is not a finite number")
            return None
        if node.tag in NUMBERS and (value is None or abs(cast("float", value)) > MAX_NUMBER and isinstance(value, int)):
            self._problem(node, f"{short(node.value)} is too large a number; put it in quotes if it is text")
            return None
        return value

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, JsonValue]:
        made: dict[str, JsonValue] = {}
        for source in [value for key, value in node.value if key.tag == MERGE]:
            self._merge(source, path, made)
        self._document.places[path] = _start(node)  # merged sources have set their own place here
        seen: dict[str, Place] = {}
        for key, value in node.value:
            if key.tag == MERGE:
                continue
            if not isinstance(key, ScalarNode):
                self._problem(key, "a key must be text, got a list or a mapping; put text with brackets in quotes")
            elif key.tag not in self._converters():
                self._refuse_tag(key)
            elif SURROGATE.search(key.value):
                self._problem(key, "a key cannot have half a character")
            elif key.value in seen:
                self._problem(key, f"the key {short(key.value)} stands twice, first in line {seen[key.value].line}")
            else:
                seen[key.value] = self._document.key_places[(*path, key.value)] = _start(key)
                made[key.value] = self._value(value, (*path, key.value))
        return made

    def _merge(self, source: Node, path: Path, made: dict[str, JsonValue]) -> None:
        """Add the entries of a merge key. YAML 1.1: earlier sources and the mapping's own keys win."""
        if isinstance(source, SequenceNode):
            for one in source.value:
                self._merge(one, path, made)
            return
        taken = self._value(source, path)
        if not isinstance(taken, dict):
            self._problem(source, "'<<' takes a mapping, or a list of mappings")
            return
        for key, value in taken.items():
            made.setdefault(key, value)


def _tag_of(text: str) -> str:
    """Return the tag that YAML gives to plain text, such as that of a number."""
    resolver: Any = yaml.resolver.Resolver()  # PyYAML's stubs do not type this
    return str(resolver.resolve(ScalarNode, text, (True, False)))


def _start(node: Node) -> Place:
    return place_of_mark(node.start_mark)
