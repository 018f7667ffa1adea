"""Blocks that a compatible server sends in pieces: Mistral's chunks of content, OpenRouter's `reasoning_details`."""

from __future__ import annotations

from understudy.providers.wire.json_values import is_array, is_object
from understudy.vocabulary.messages import JsonObject, JsonValue

GROWING = ("text", "summary")
"""Fields whose texts are appended; others are replaced."""


def add_block(blocks: list[JsonObject], piece: JsonObject) -> None:
    """Add a piece to the last of `blocks` if it belongs to it, else as a new one."""
    if blocks and all(_agree(blocks[-1].get(key), piece.get(key)) for key in ("type", "index", "id")):
        blocks[-1] = _joined(blocks[-1], piece)
    else:
        blocks.append(piece)


def _agree(before: JsonValue, now: JsonValue) -> bool:
    return before is None or now is None or before == now


def _joined(before: JsonObject, piece: JsonObject) -> JsonObject:
    made = dict(before)
    for key, value in piece.items():
        old = made.get(key)
        if isinstance(old, str) and isinstance(value, str) and key in GROWING:
            made[key] = old + value
        elif is_array(old) and is_array(value):
            made[key] = _appended(old, value)
        elif value is not None or key not in made:
            made[key] = value
    return made


def _appended(before: JsonValue, more: JsonValue) -> list[JsonValue]:
    """Append arrays; a text that follows a text continues it."""
    made: list[JsonValue] = list(before) if is_array(before) else []
    for each in more if is_array(more) else ():
        last = made[-1] if made else None
        if is_object(last) and is_object(each) and last.get("type") == each.get("type") == "text":
            made[-1] = _joined(last, each)
        else:
            made.append(each)
    return made
