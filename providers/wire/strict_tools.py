"""Makes the schema of a tool strict, so that the API can hold the model to it."""

from __future__ import annotations

from understudy.vocabulary.answers.strict_schemas import strict_schema
from understudy.vocabulary.messages import JsonObject, JsonValue, Settings, ToolSpec


def strict_fields(
    provider: str, tool: ToolSpec, settings: Settings, key: str, *, all_required: bool = False, recursive: bool = True
) -> dict[str, JsonValue]:
    """Return the fields of a tool that say whether it is strict, with its schema under `key`.

    Raises:
        ValueError: the tool's schema cannot be made strict.
    """
    if settings.strict_tools is None:
        return {key: tool.schema}
    return {
        key: strict_parameters(provider, tool, all_required, recursive) if settings.strict_tools else tool.schema
    } | {"strict": settings.strict_tools}


def strict_parameters(provider: str, tool: ToolSpec, all_required: bool, recursive: bool) -> JsonObject:
    """Return a strict schema of a tool's arguments.

    Raises:
        ValueError: there is none: an object is open, or a value may be anything.
    """
    strict = strict_schema(tool.schema, all_required=all_required, recursive=recursive)
    if strict is None:
        more = "" if recursive else ", and no type may hold itself"
        raise ValueError(
            f"{provider}: tool {tool.name!r} cannot be strict: each of its parameters needs a type with fixed fields, "
            f"so no dict and no Any{more}; change it, or leave strict_tools out"
        )
    return strict
