"""Events as `text/event-stream`: an `id`, the type and the JSON of each.

The JSON is ASCII, with escapes, and each event is one `data` line: readers that also cut lines at U+2028 read it whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isfinite

from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.runs.events import Event, ReasoningDelta, TextDelta

from .event_json import event_json, event_type

HEARTBEAT = b": still here\n\n"
"""A comment, which readers skip: it keeps proxies from closing a connection on which nothing happens."""

_ENDS = re.compile(r"\r\n|\r|\n")

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)

quoted: Callable[[str], str] = json.encoder.encode_basestring_ascii
"""A text as a JSON string, in ASCII."""


def json_text(value: JsonValue) -> str:
    """Return a JSON value as one line of ASCII. What JSON has no number for, such as infinity, is null."""
    try:
        return _ENCODER.encode(value)
    except ValueError:
        return _ENCODER.encode(_with_nulls(value))


def _with_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _with_nulls(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_with_nulls(each) for each in value]
    return value


def frame(data: str, *, event: str = "", id: str = "") -> bytes:
    """Return one event of a stream.

    Args:
        data: its text; each line gets a `data` line of its own.
        event: its type; empty for none.
        id: what a browser sends as `Last-Event-ID` when it connects again; empty to leave that as it was.

    Raises:
        ValueError: `event` or `id` has a character that ends a line, or `id` a NUL.
    """
    if _ENDS.search(event) or _ENDS.search(id) or "\0" in id:
        raise ValueError(f"the type and the id of an event must be one line, got {event!r} and {id!r}")
    lines = [f"id: {id}"] if id else []
    if event:
        lines.append(f"event: {event}")
    lines += [f"data: {line}" for line in _ENDS.split(data)]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


def encode_event(event: Event, *, has_place: bool = True) -> bytes:
    """Return an event in the form of a stream.

    Args:
        event: the event. One of a run inside has no `id`: a reader's position is counted by the events of the outermost run.
        has_place: whether the reader can go on behind the event; else it has no `id` either.
    """
    if type(event) is TextDelta or type(event) is ReasoningDelta:
        return _delta(event, has_place)
    told = event_json(event)
    is_placed = has_place and len(event.path) < 2
    return frame(json_text(told), event=str(told["type"]), id=str(told["id"]) if is_placed else "")


def _delta(event: TextDelta | ReasoningDelta, has_place: bool) -> bytes:
    """Return what `frame` would: put together by hand, because a run has thousands of them."""
    kind, id = event_type(event), event.id
    run_id, path, is_inner = _about(event.run_id, event.path, event.parent_run_id)
    place = f"id: {id}\n" if has_place and not is_inner else ""
    return (
        f'{place}event: {kind}\ndata: {{"type":"{kind}","id":"{id}",{run_id},"seq":{event.seq},{path},"time":{event.time},'
        f'"text":{quoted(event.text)},"turn":{event.turn},"attempt":{event.attempt},"offset":{event.offset}}}\n\n'
    ).encode()


@lru_cache(maxsize=256)
def _about(run_id: str, path: tuple[str, ...], parent_run_id: str | None) -> tuple[str, str, bool]:
    about = f'"path":{json_text(path)},"parent_run_id":{json_text(parent_run_id)}'
    return f'"run_id":{quoted(run_id)}', about, len(path) > 1
