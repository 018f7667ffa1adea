"""Refuses settings that a provider lacks, and lays a provider's own fields over a request body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from understudy.vocabulary.messages import JsonObject, JsonValue

from .json_values import is_array, is_object


def refuse(provider: str, setting: str, instead: str = "leave it out") -> NoReturn:
    """Raise ValueError for a setting that the API lacks."""
    raise ValueError(f"settings: {provider} has no {setting}; {instead}")


def lay_over(
    body: Mapping[str, JsonValue], extra: JsonObject, *, merged: tuple[str, ...] = (), joined: tuple[str, ...] = ()
) -> JsonObject:
    """Return `body` with the fields of `extra` in place of its own.

    Args:
        merged: names of objects whose fields are put together instead.
        joined: names of arrays that hold the entries of both instead, each entry once.

    Raises:
        ValueError: `extra` asks for a stream, which `complete` cannot read, or a field of `joined` is no array.
    """
    if extra.get("stream"):
        raise ValueError("settings: extra must not set stream; a stream is not what complete() reads")
    result = {**body, **extra}
    for key in merged:
        mine, theirs = body.get(key), extra.get(key)
        if is_object(mine) and is_object(theirs):
            result[key] = {**mine, **theirs}
    for key in joined:
        mine, theirs = body.get(key), extra.get(key)
        if theirs is None:
            continue
        if not is_array(theirs):
            raise ValueError(f"settings: extra[{key!r}] must be a list, got {type(theirs).__name__}")
        own = list(mine) if is_array(mine) else []
        result[key] = [*own, *[each for each in theirs if each not in own]]
    return result
