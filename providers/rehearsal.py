"""`rehearsal`: a model without a mind, key or network, to see an agent's tools work before anything is paid for.

It calls every tool once, all in one turn, with arguments made from their schemas, and then reports what they gave. The
same request always gives the same turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from understudy.messages import JsonObject, JsonValue, ModelRequest, ModelTurn, TextPart, ToolCall, ToolResult, Usage

LONGEST_REPORT = 160  # Characters of each result in the closing text; enough to see, short enough for a terminal.


class Rehearsal:
    """Walks every tool once, then answers."""

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return the calls of all tools for a user's message, and a report for their results."""
        if request.tool_results:
            return _says(_report(request))
        if not request.tools or request.settings.tool_choice == "none":
            return _says(f"(rehearsal) You said: {_short(request.text)}")
        parts = tuple([ToolCall("", tool.name, made_arguments(tool.schema)) for tool in request.tools])
        return ModelTurn(parts, Usage(), "tool_calls", "tool_calls", model="rehearsal")

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
    """Make a value that fits `schema`: its default, first example or first choice, else one made up from its type.

    Args:
        schema: a JSON Schema.
        root: the schema that `$ref` refers to.
        depth: how deep in the value this is; recursive schemas end at a depth of 8 with None.
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
    if depth > 8:
        return None
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        if isinstance(options, Sequence) and not isinstance(options, str):
            real = [o for o in options if isinstance(o, Mapping) and o.get("type") != "null"]
            return made_value(real[0], root, depth + 1) if real else None
    return _by_type(schema, root, depth)


def _by_type(schema: JsonObject, root: JsonObject, depth: int) -> JsonValue:
    match schema.get("type"):
        case "string":
            return _made_string(schema)
        case "integer" | "number":
            return _made_number(schema)
        case "boolean":
            return True
        case "array":
            items = schema.get("items")
            least = schema.get("minItems", 1)
            item = made_value(items, root, depth + 1) if isinstance(items, Mapping) else "text"
            return [item] * max(1, least if isinstance(least, int) else 1)
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
}


def _made_string(schema: JsonObject) -> str:
    text = FORMATS.get(str(schema.get("format")), "text")
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int):
        text = text.ljust(least, ".")
    return text[:most] if isinstance(most, int) else text


def _made_number(schema: JsonObject) -> JsonValue:
    for key, step in (("minimum", 0), ("exclusiveMinimum", 1), ("maximum", 0), ("exclusiveMaximum", -1)):
        bound = schema.get(key)
        if isinstance(bound, (int, float)):
            return bound + step
    return 1


def _made_object(schema: JsonObject, root: JsonObject, depth: int) -> dict[str, JsonValue]:
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
        return {}
    wanted = [name for name in properties if name in required]
    return {name: made_value(cast(JsonObject, properties[name]), root, depth + 1) for name in wanted}


def _resolve(reference: str, root: JsonObject) -> JsonObject:
    found: JsonValue = root
    for step in reference.removeprefix("#/").split("/"):
        found = found[step] if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}
