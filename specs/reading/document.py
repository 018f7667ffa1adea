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
from yaml.error import Mark
from yaml.events import AliasEvent, CollectionStartEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from understudy.vocabulary.messages import JsonValue

from .problems import Place, Problem, did_you_mean, short

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


LINE_END = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
"""Line ends as PyYAML counts them in its marks."""
OPENS = {"while parsing a flow sequence": ("[", "]"), "while parsing a flow mapping": ("{", "}")}
BLOCK_STARTS = ("'<block mapping start>'", "'<block sequence start>'", "'-'", "'?'")
QUOTE = "put text with such a sign in quotes"


class Refused(yaml.MarkedYAMLError):
    """Valid YAML that a spec may not have; its message is shown unchanged."""


def explain(error: yaml.YAMLError, text: str) -> tuple[Place, str]:
    """Return the place where a text is not YAML, and the reason."""
    if isinstance(error, ReaderError):
        found = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
        return place_of_offset(text, error.position), found
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return Place(1, 1), f"this is not YAML: {error}"
    if isinstance(error, Refused):
        return place_of_mark(error.problem_mark), str(error.problem)
    problem, context = str(error.problem), error.context or ""
    begun = error.context_mark or error.problem_mark
    if _is_told_where_it_begins(problem, context):
        return place_of_mark(begun), _beginning(problem, context)
    return place_of_mark(error.problem_mark), _in_words(problem, context, begun.line + 1)


def place_of_mark(mark: Mark) -> Place:
    """Return the place that a mark of PyYAML points to."""
    return Place(mark.line + 1, mark.column + 1)


def place_of_offset(text: str, offset: int) -> Place:
    """Return the place of a character."""
    ends = [found.end() for found in LINE_END.finditer(text[:offset])]
    return Place(len(ends) + 1, offset - (ends[-1] if ends else 0) + 1)


def _is_told_where_it_begins(problem: str, context: str) -> bool:
    """Whether the error belongs at the start of a construct, such as an open quote, and not where the parser stopped."""
    if context in OPENS:
        return "'<stream end>'" in problem
    if context == "while scanning a quoted scalar":
        return problem in ("found unexpected end of stream", "found unexpected document separator")
    return problem == "could not find expected ':'"


def _beginning(problem: str, context: str) -> str:
    if context in OPENS:
        return f"this {OPENS[context][0]!r} is never closed; expected {OPENS[context][1]!r} before the text ends"
    if context == "while scanning a quoted scalar":
        return "this quote is never closed"
    return "this is neither 'key: value' nor the rest of what stands above; add ': ', or check indentation and quotes"


def _in_words(problem: str, context: str, begun: int) -> str:
    anchor = re.search(r"'(.*)'", context if "duplicate anchor" in context else problem)
    name = anchor.group(1) if anchor else ""
    if "duplicate anchor" in context:
        return f"the anchor '&{name}' stands twice, first in line {begun}"
    if problem.startswith("found undefined alias"):
        return f"no anchor '&{name}' stands before this; put text that begins with '*' in quotes"
    if problem.startswith("expected alphabetic or numeric character"):
        return "this is no name of an anchor or an alias; put text that begins with '*' or '&' in quotes"
    if problem == "but found another document":
        return "a second document begins here, and a spec is one; write several files, and name them under 'include:'"
    if "that cannot start any token" in problem:
        tab = "a tab cannot indent YAML; use spaces"
        return tab if "\\t" in problem else f"text cannot begin with {name!r}; put it in quotes"
    if problem == "mapping values are not allowed here":
        return "a ': ' begins a value where none can stand; put text with ': ' in quotes, and check the indentation"
    if context in OPENS:
        opened, closes = OPENS[context]
        return f"expected ',' or {closes!r} here, for the {opened!r} of line {begun} is still open; {QUOTE}"
    if problem == "expected the node content, but found '<stream end>'":
        return "the text ends here inside of a '[' or a '{'; close it"
    if problem.startswith("expected the node content"):
        return f"expected a value here, got {problem.rpartition(' found ')[2]}; {QUOTE}"
    if problem.startswith("expected <block end>"):
        if problem.endswith(BLOCK_STARTS):
            return f"indentation does not match the block that starts on line {begun}"
        return f"the value before this has ended, and nothing can follow it in this line; {QUOTE}"
    return f"this is not YAML: {problem}" + (f" ({context})" if context else "")


MARK = "${env:"
PLACE = re.compile(r"\$\$\{env:|\$\{env:([^{}]*)(\}?)")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(^|_)(KEY|TOKEN|PWD)$",
    re.IGNORECASE,
)
BOUND_LATER = ("prompt", "when", "for_each", "until")
"""Keys of a task whose `${…}` the workflow binds at run time; there `$${` is an escaped `${`."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with the environment's values filled in.

    Attributes:
        text: the text; a name with a problem is left out.
        is_whole: whether the original text was one `${env:NAME}` and nothing else.
        problems: one message for each name with a problem.
    """

    text: str
    is_whole: bool
    problems: tuple[str, ...]


def mentions_environment(text: str) -> bool:
    """Whether a text has a `${env:NAME}`, escaped or not."""
    return MARK in text


def is_bound_later(path: tuple[str | int, ...]) -> bool:
    """Whether a workflow binds the text at this path of a document again at run time."""
    if len(path) > 3 and path[-2] == "parameters":
        return path[-4] in ("steps", "tasks", "sub_agents")
    return len(path) > 2 and path[-3] == "tasks" and path[-1] in BOUND_LATER


def fill_in(text: str, environment: Mapping[str, str], *, bound_later: bool = False) -> Filled:
    """Put the environment's values into a text; `$${env:` is an escaped `${env:`.

    Args:
        text: a text of a spec.
        environment: value by name.
        bound_later: whether a workflow will bind the text again; then `$` in the values is escaped for it.
    """
    problems: list[str] = []

    def value_of(found: re.Match[str]) -> str:
        if found.group().startswith("$$"):
            return found.group() if bound_later else MARK
        name = found.group(1).strip()
        problem = _problem_with(name, found, environment)
        if problem:
            problems.append(problem)
            return ""
        return environment[name].replace("${", "$${") if bound_later else environment[name]

    filled = PLACE.sub(value_of, text)
    whole = PLACE.fullmatch(text)
    return Filled(filled, whole is not None and not text.startswith("$$"), tuple(problems))


def _problem_with(name: str, found: re.Match[str], environment: Mapping[str, str]) -> str:
    if not found.group(2) or not NAME.fullmatch(name):
        return f"{short(found.group())} names no variable; expected ${{env:NAME}}, or $${{env: for the characters themselves"
    if SECRET.search(name):
        return (
            f"${{env:{name}}} looks like a secret, and a spec holds none: it is shown, logged and drawn; "
            "keys are found in the environment by the model's provider itself"
        )
    if name not in environment:
        known = [each for each in environment if not SECRET.search(each)]
        return f"the environment has no {name}; set it before the spec is loaded{did_you_mean(name, known)}"
    return ""
