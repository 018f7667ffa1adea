"""Writes the schema of a tool, made strict where the settings ask for it."""

from __future__ import annotations

from understudy.vocabulary.answers.strict_schemas import strict_arguments
from understudy.vocabulary.messages import JsonObject, Settings, ToolSpec


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
