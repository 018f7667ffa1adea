"""Writes the grammar of specs as a JSON Schema, for editors."""

from __future__ import annotations

from typing import cast

from understudy.vocabulary.messages import JsonValue

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCALARS = ("integer", "number", "boolean")
FROM_ENVIRONMENT: dict[str, JsonValue] = {
    "type": "string",
    "pattern": r"^\$\{env:[A-Za-z_][A-Za-z0-9_]*\}$",
    "description": "a value of the environment",
}
NAMES_BELOW = ("properties", "$defs", "patternProperties")
"""Keywords whose value maps names to schemas."""


def spec_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of a spec, draft 2020-12; loads pydantic.

    The schema describes the shape of a spec. Only the loader checks meaning, such as that a reference names a runner.
    """
    from .spec import SpecGrammar

    made = cast("dict[str, JsonValue]", SpecGrammar.model_json_schema())
    root = cast("dict[str, JsonValue]", _cleaned(made))
    definitions = cast("dict[str, JsonValue]", root.pop("$defs"))
    definitions["FromEnvironment"] = FROM_ENVIRONMENT
    return {"$schema": DIALECT, "title": "A spec of understudy", **root, "$defs": definitions}


def _cleaned(schema: JsonValue) -> JsonValue:
    """Return a schema without pydantic's titles, in which numbers and booleans may come from the environment."""
    if isinstance(schema, list):
        return [_cleaned(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key in NAMES_BELOW and isinstance(value, dict):
            made[key] = {name: _cleaned(each) for name, each in value.items()}
        elif key != "title":
            made[key] = value if key in ("default", "enum", "const", "examples") else _cleaned(value)
    return _or_from_environment(made) if made.get("type") in SCALARS else made


def _or_from_environment(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    around: dict[str, JsonValue] = {key: schema.pop(key) for key in ("description", "default") if key in schema}
    return {**around, "anyOf": [schema, {"$ref": "#/$defs/FromEnvironment"}]}
