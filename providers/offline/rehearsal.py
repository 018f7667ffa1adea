"""`rehearsal`: a model without intelligence, key or network, to try an agent's tools before paying for a model.

It calls every tool once, all in one turn, with arguments made from the schemas. Then it reports the results, or makes an
answer that fits the output schema. If the agent has criteria, the answer meets the first one whose demand can be read. The
same request always gives the same turn. A streamed turn comes word by word.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from understudy.vocabulary.messages import (
    JsonObject,
    JsonValue,
    ModelRequest,
    ModelTurn,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
)
from understudy.vocabulary.pieces import CallPiece, Piece, ReasoningPiece, TextPiece, pieces_of
from understudy.vocabulary.runs.criteria import KeywordCriteria, StructuredOutputCriteria

LONGEST_REPORT = 160  # Characters of each result in the closing text; short enough for a terminal.


DEEP = 4  # Below this depth values are as small as allowed: people rarely read deeper.
DEEPEST = 12  # A schema that only fits endless values is given up at this depth.


class Rehearsal:
    """A model that calls every tool once, then answers.

    Args:
        criteria: criteria of the agent; an answer meets the first `KeywordCriteria` or `StructuredOutputCriteria` among
            them. The model `rehearsal` and `--rehearse` use the agent's own. The demand of a function is unknown.
    """

    def __init__(self, criteria: Iterable[object] = ()) -> None:
        self._criterion = next(
            (each for each in criteria if isinstance(each, (KeywordCriteria, StructuredOutputCriteria))), None
        )

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return calls of all tools after a user's message, and an answer after their results."""
        output = request.output
        tools = [tool for tool in request.tools if output is None or tool.name != output.tool]
        answers = request.tool_results or not tools or request.settings.tool_choice == "none"
        if answers and output is not None:
            return _says(json.dumps(made_arguments(output.schema), ensure_ascii=False))
        if answers:
            told = _report(request) if request.tool_results else f"(rehearsal) You said: {_short(request.text)}"
            return _says(self._met(told))
        forced = [tool for tool in tools if tool.name == request.settings.tool_choice]
        parts = tuple([ToolCall("", tool.name, made_arguments(tool.schema)) for tool in forced or tools])
        return ModelTurn(parts, Usage(), "tool_calls", "tool_calls", model="rehearsal")

    def stream(self, request: ModelRequest) -> Iterator[Piece]:
        """Yield the same turn word by word."""
        return word_by_word(self.complete(request))

    def _met(self, text: str) -> str:
        """Return an answer that meets the criterion, with `text` in it if the criterion allows."""
        match self._criterion:
            case KeywordCriteria(keyword=keyword):
                return text if keyword in text else f"{text}\n{keyword}"
            case StructuredOutputCriteria(schema=None):
                return json.dumps({"text": text}, ensure_ascii=False)
            case StructuredOutputCriteria(schema=schema) if schema is not None:
                return json.dumps(made_value(schema, schema), ensure_ascii=False)
            case _:
                return text

    def __repr__(self) -> str:
        return "Rehearsal()"


def _says(text: str) -> ModelTurn:
    return ModelTurn((TextPart(text),), Usage(), "stop", "stop", model="rehearsal")


def _report(request: ModelRequest) -> str:
    calls = {call.id: call for message in request.messages for call in message.tool_calls}
    lines = [_line(calls.get(result.call_id), result) for result in request.tool_results]
    return "\n".join([f"(rehearsal) {len(lines)} of {len(request.tools)} tools were called:", *lines])


def _line(call: ToolCall | None, result: ToolResult) -> str:
    given = "" if call is None else ", ".join(f"{k}={v!r}" for k, v in call.arguments.items())
    verb = "failed" if result.is_error else "gave"
    return f"- {result.name}({given}) {verb}: {_short(result.content)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_REPORT else line[: LONGEST_REPORT - 1] + "…"


def made_arguments(schema: JsonObject) -> dict[str, JsonValue]:
    """Make arguments that fit an object schema: its required properties, each by `made_value`."""
    made = _made_object(schema, schema, 0)
    return dict(made)


def made_value(schema: JsonObject, root: JsonObject, depth: int = 0) -> JsonValue:
    """Make a value that fits `schema`: its default, first example or first choice, else a value of its type.

    `pattern` and `multipleOf` are ignored.

    Args:
        schema: a JSON Schema.
        root: the schema that `$ref` refers to.
        depth: depth of this value; below a depth of 4 values are as small as the schema allows, so that values of
            recursive schemas end.
    """
    if "$ref" in schema:
        schema = {**_resolve(str(schema["$ref"]), root), **{k: v for k, v in schema.items() if k != "$ref"}}
    if "default" in schema:
        return schema["default"]
    for key in ("examples", "enum"):
        choices = schema.get(key)
        if isinstance(choices, Sequence) and not isinstance(choices, str) and choices:
            return choices[0]
    if "const" in schema:
        return schema["const"]
    if depth > DEEPEST:
        return None
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        if isinstance(options, Sequence) and not isinstance(options, str):
            return _made_choice([o for o in options if isinstance(o, Mapping)], root, depth)
    return _by_type(schema, root, depth)


def _made_choice(options: Sequence[JsonObject], root: JsonObject, depth: int) -> JsonValue:
    real = [option for option in options if option.get("type") != "null"]
    may_be_null = len(real) < len(options)
    if not real or (may_be_null and depth > DEEP):
        return None
    return made_value(real[0], root, depth + 1)


def _by_type(schema: JsonObject, root: JsonObject, depth: int) -> JsonValue:
    match schema.get("type"):
        case "string":
            return _made_string(schema)
        case "integer":
            return _made_number(schema, whole=True)
        case "number":
            return _made_number(schema, whole=False)
        case "boolean":
            return True
        case "array":
            return _made_array(schema, root, depth)
        case "object":
            return _made_object(schema, root, depth)
        case "null":
            return None
        case _:
            return "text"


FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00",
    "duration": "PT1H",
    "email": "ada@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "json-string": "{}",
}


def _made_string(schema: JsonObject) -> str:
    text = FORMATS.get(str(schema.get("format")), "text")
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int):
        text = text.ljust(least, ".")
    return text[:most] if isinstance(most, int) else text


def _made_number(schema: JsonObject, *, whole: bool) -> JsonValue:
    """Return 1 if it fits, else the whole number nearest to a bound, else a number between the bounds."""
    least, above, most, below = [_bound(schema, key) for key in BOUNDS]
    lows = [v for v in (least, above) if v is not None]
    highs = [v for v in (most, below) if v is not None]
    candidates: list[int | float] = [1]
    if lows:
        candidates += [math.ceil(max(lows)), math.floor(max(lows)) + 1]
    if highs:
        candidates += [math.floor(min(highs)), math.ceil(min(highs)) - 1]
    if lows and highs and not whole:
        candidates.append((max(lows) + min(highs)) / 2)
    for value in candidates:
        if (
            (least is None or value >= least)
            and (above is None or value > above)
            and (most is None or value <= most)
            and (below is None or value < below)
        ):
            return value
    return 1


BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")


def _bound(schema: JsonObject, key: str) -> int | float | None:
    value = schema.get(key)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _made_array(schema: JsonObject, root: JsonObject, depth: int) -> list[JsonValue]:
    firsts, items = schema.get("prefixItems"), schema.get("items")
    made = [
        made_value(item, root, depth + 1)
        for item in (firsts if isinstance(firsts, Sequence) and not isinstance(firsts, str) else ())
        if isinstance(item, Mapping)
    ]
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    wanted = max(least if isinstance(least, int) else 0, 0 if depth > DEEP else 1)
    if isinstance(most, int):
        wanted = min(wanted, most)
    while len(made) < wanted:
        made.append(made_value(items, root, depth + 1) if isinstance(items, Mapping) else "text")
    return made


def _made_object(schema: JsonObject, root: JsonObject, depth: int) -> dict[str, JsonValue]:
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
        return {}
    wanted = [name for name in properties if name in required]
    return {name: made_value(cast(JsonObject, properties[name]), root, depth + 1) for name in wanted}


def _resolve(reference: str, root: JsonObject) -> JsonObject:
    found: JsonValue = root
    for step in reference.removeprefix("#").split("/")[1:]:
        # RFC 6901, 3: a slash in a name is written ~1, a tilde ~0.
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


_WORD = re.compile(r"\s*\S+|\s+")


def word_by_word(turn: ModelTurn) -> Iterator[Piece]:
    """Yield the pieces of a turn: each word of text, reasoning and arguments in one of its own."""
    for piece in pieces_of(turn):
        match piece:
            case TextPiece() | ReasoningPiece():
                first, *rest = _WORD.findall(piece.text) or [""]
                yield replace(piece, text=first)
                yield from [type(piece)(word, piece.part) for word in rest]
            case CallPiece():
                yield replace(piece, arguments="")
                yield from [CallPiece(piece.part, word) for word in _WORD.findall(piece.arguments)]
            case _:
                yield piece
