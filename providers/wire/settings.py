"""Refuses settings that a provider lacks, and lays a provider's own fields over a request body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from understudy.vocabulary.messages import JsonObject, JsonValue

from .json_values import is_object


def refuse(provider: str, setting: str, instead: str = "leave it out") -> NoReturn:
    """Raise ValueError for a setting that the API lacks."""
    raise ValueError(f"settings: {provider} has no {setting}; {instead}")


def lay_over(body: Mapping[str, JsonValue], extra: JsonObject, *, merged: tuple[str, ...] = ()) -> JsonObject:
    """Return `body` with the fields of `extra` in place of its own; the objects named in `merged` are joined instead.

    Raises:
        ValueError: `extra` asks for a stream, which `complete` cannot read.
    """
    if extra.get("stream"):
        raise ValueError("settings: extra must not set stream; a stream is not what complete() reads")
    result = {**body, **extra}
    for key in merged:
        mine, theirs = body.get(key), extra.get(key)
        if is_object(mine) and is_object(theirs):
            result[key] = {**mine, **theirs}
    return result
