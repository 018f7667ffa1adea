"""Translates JSON Schemas into the strict subset that model APIs can enforce."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from understudy.vocabulary.messages import JsonObject, JsonValue

FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
KEPT = ("type", "enum", "const", "description")
"""Keywords that go as they are; those of `_Strict` are followed, and what else only narrows is told in words.

OpenAI API, Structured outputs, Supported schemas; Claude API, Structured outputs, JSON Schema limitations. Both demand
closed objects. Bounds and patterns are refused by one of them, or by some of their models.
"""
NARROWING = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems"),
)
SILENT = ("title", "default", "examples", "discriminator", "deprecated", "readOnly", "writeOnly")


class TooOpen(Exception):
    """The schema has no equivalent in the strict subset."""


def strict_schema(schema: JsonObject, *, all_required: bool = False, recursive: bool = True) -> JsonObject | None:
    """Return a strict schema whose values all fit `schema`, bounds and patterns aside; None if there is none.

    Args:
        schema: a JSON Schema whose references lead to its `$defs`.
        all_required: demand every property; one with a default may be given as well as left out.
        recursive: whether a definition may lead to itself.
    """
    try:
        definitions = {name: _object(about) for name, about in _object(schema.get("$defs", {})).items()}
        circles = frozenset([name for name in definitions if _leads_to(name, name, definitions, set())])
        if circles and not recursive:
            return None
        strict = _Strict(definitions, circles, all_required)
        root = strict.of({k: v for k, v in schema.items() if k != "$defs"})
        made = {name: strict.of(about) for name, about in definitions.items()}
    except TooOpen:
        return None
    return {**root, **({"$defs": made} if made else {})}


def strict_arguments(
    tool: str, schema: JsonObject, *, all_required: bool = False, recursive: bool = True
) -> JsonObject:
    """Return a strict schema of a tool's arguments, as `strict_schema` does.

    Raises:
        ValueError: there is none: an object is open, or a value may be anything.
    """
    strict = strict_schema(schema, all_required=all_required, recursive=recursive)
    if strict is None:
        more = "" if recursive else ", and no type may hold itself"
        raise ValueError(
            f"tool {tool!r} cannot be strict: each of its parameters needs a type with fixed fields, so no dict and no "
            f"Any{more}; change it, or leave strict_tools out"
        )
    return strict


class _Strict:
    """Translates the schemas of one document.

    Args:
        definitions: the targets of references.
        circles: the recursive definitions.
        all_required: as for `strict_schema`.
    """

    def __init__(self, definitions: Mapping[str, JsonObject], circles: frozenset[str], all_required: bool) -> None:
        self._definitions = definitions
        self._circles = circles
        self._all_required = all_required

    def of(self, schema: JsonObject) -> JsonObject:
        if "$ref" in schema:
            return self._referred(schema)
        merged = _unpacked(schema)
        made: dict[str, JsonValue] = {}
        told: list[str] = []
        for key, value in merged.items():
            if key in KEPT or (key == "format" and value in FORMATS):
                made[key] = value
            elif key in ("anyOf", "oneOf"):
                made["anyOf"] = [self.of(_object(option)) for option in _array(value)]
            elif key == "items":
                made[key] = self.of(_object(value))
            elif key in NARROWING:
                told.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
            elif key not in (*SILENT, "properties", "required", "additionalProperties"):
                raise TooOpen(key)
        if merged.get("type") == "object":
            made |= self._closed(merged)
        elif not {"type", "enum", "const", "anyOf"} & made.keys() or (
            made.get("type") == "array" and "items" not in made
        ):
            raise TooOpen("anything goes")
        if told:
            made["description"] = " ".join([str(made.get("description", "")), f"({'; '.join(told)})"]).strip()
        return made

    def _referred(self, schema: JsonObject) -> JsonObject:
        """A reference must have no other keywords beside it, so those of this use go into a copy of the definition."""
        name = _name(schema["$ref"])
        if "description" not in schema or name in self._circles or name not in self._definitions:
            return {"$ref": schema["$ref"]}
        return self.of({**self._definitions[name], "description": schema["description"]})

    def _closed(self, schema: JsonObject) -> dict[str, JsonValue]:
        properties = schema.get("properties")
        if schema.get("additionalProperties", False) is not False or not isinstance(properties, Mapping):
            raise TooOpen("more properties")
        made = {name: self.of(_object(about)) for name, about in properties.items()}
        required: JsonValue = list(made) if self._all_required else schema.get("required", [])
        return {"properties": made, "required": required, "additionalProperties": False}


def _unpacked(schema: JsonObject) -> JsonObject:
    """Return the schema without `allOf`, if that holds one schema only."""
    if "allOf" not in schema:
        return schema
    options = _array(schema["allOf"])
    if len(options) != 1 or "$ref" in _object(options[0]):
        raise TooOpen("allOf")
    return {**_object(options[0]), **{k: v for k, v in schema.items() if k != "allOf"}}


def _leads_to(name: str, target: str, definitions: Mapping[str, JsonObject], seen: set[str]) -> bool:
    seen.add(name)
    for found in _references(definitions[name]):
        if found == target or (
            found in definitions and found not in seen and _leads_to(found, target, definitions, seen)
        ):
            return True
    return False


def _references(value: JsonValue) -> list[str]:
    if isinstance(value, Mapping):
        own = [_name(value["$ref"])] if isinstance(value.get("$ref"), str) else []
        return own + [name for each in value.values() for name in _references(each)]
    return [name for each in _array(value) for name in _references(each)]


def _name(reference: JsonValue) -> str:
    return str(reference).rpartition("/")[2]


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, Mapping):  # `true`: anything
        raise TooOpen("anything goes")
    return value


def _array(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()
