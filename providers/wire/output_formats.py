"""The request fields that ask each API for an answer of a given form, and for calls that fit the schemas of tools.

A form that uses a tool needs no field.
"""

from __future__ import annotations

from understudy.vocabulary.answers.strict_schemas import strict_arguments, strict_schema
from understudy.vocabulary.messages import JsonObject, JsonValue, OutputSpec, Settings, ToolSpec

from .json_values import is_array, is_object


def openai_format(output: OutputSpec | None) -> dict[str, JsonValue]:
    """Return the fields of a chat completions request that ask for this form.

    Not every schema can be strict; without it the API does not enforce the schema.
    """
    if output is None or output.tool:
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": _openai_schema(output)}}


def responses_format(output: OutputSpec | None) -> dict[str, JsonValue]:
    """Return the fields of a Responses request that ask for this form; the API enforces a strict schema alone."""
    if output is None or output.tool:
        return {}
    return {"text": {"format": {"type": "json_schema", **_openai_schema(output)}}}


def _openai_schema(output: OutputSpec) -> JsonObject:
    strict = strict_schema(output.schema, all_required=True)
    schema = dict(output.schema if strict is None else strict)
    about = schema.pop("description", None)
    described: dict[str, JsonValue] = {} if about is None else {"description": about}
    return {"name": output.name, **described, "schema": schema, "strict": strict is not None}


def anthropic_format(output: OutputSpec | None) -> dict[str, JsonValue]:
    """Return the fields of a Messages request that ask for this form."""
    if output is None or output.tool:
        return {}
    strict = strict_schema(output.schema, recursive=False)
    schema = output.schema if strict is None else strict  # the API itself reports what it does not accept
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def google_format(output: OutputSpec | None) -> dict[str, JsonValue]:
    """Return the fields of a generationConfig that ask for this form."""
    if output is None or output.tool:
        return {}
    return {"responseMimeType": "application/json", "responseJsonSchema": _without_const(output.schema)}


def _without_const(value: JsonValue) -> JsonValue:
    """Replace `const` by `enum`, as the API only knows the latter (Gemini API, Structured output)."""
    if is_array(value):
        return [_without_const(each) for each in value]
    if not is_object(value):
        return value
    made = {key: _without_const(each) for key, each in value.items()}
    if "const" in made and not is_object(made["const"]):
        made["enum"] = [made.pop("const")]
    return made


def strict_fields(
    tool: ToolSpec, settings: Settings, key: str, *, all_required: bool = False, recursive: bool = True
) -> JsonObject:
    """Return the fields of a tool that say whether it is strict, with its schema under `key`.

    Args:
        all_required, recursive: as for `strict_schema`, by what the API enforces.

    Raises:
        ValueError: the tool's schema cannot be made strict.
    """
    if settings.strict_tools is None:
        return {key: tool.schema}
    if not settings.strict_tools:
        return {key: tool.schema, "strict": False}
    schema = strict_arguments(tool.name, tool.schema, all_required=all_required, recursive=recursive)
    return {key: schema, "strict": True}
