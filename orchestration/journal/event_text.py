"""The events of a run as text for rows of a journal, and back. Loads pydantic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, get_args

from understudy.errors import RunCancelled
from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolResult, Usage
from understudy.vocabulary.runs.events import Event, RunFailed
from understudy.vocabulary.runs.outcome_data import plain_value

from .ending_data import Form, adapted, error_data, error_of, names_of, outcome_data, outcome_of

SEQ_DIGITS = 12

Shown: TypeAlias = "Sequence[tuple[str, str, int, str, str]]"
"""Kind, text, number, id and name of each part of a turn that was shown while it was written."""


class WrittenEvent(NamedTuple):
    """An event that was read from a text."""

    event: Event
    shown: Shown
    """Of a turn: what was shown of it; empty for its reasoning and its text, in this order."""


def key_of_event(seq: int) -> str:
    """Return the key of the row of an event; keys have the order of the numbers."""
    return f"{seq:0{SEQ_DIGITS}}"


def event_text(event: Event, shown: Shown = ()) -> str:
    """Return an event as text.

    Args:
        event: the event.
        shown: of a turn: what was shown of it; empty if that is its reasoning and its text, in this order.

    Raises:
        TypeError, ValueError: JSON cannot carry a value.
    """
    data: dict[str, Any] = {"type": type(event).__name__}
    for name in names_of(type(event)):
        value = getattr(event, name)
        data[name] = _FORMS[name].data(value) if name in _FORMS and value is not None else value
    if shown:
        data["shown"] = shown
    return json.dumps(data)


def cancelled_text(run_id: str, runner_id: str, seq: int, at: float) -> str:
    """Return the last event of a run that is cancelled while nobody drives it, as text."""
    error = RunCancelled(f"run {run_id} was cancelled: no process had it", run_id=run_id)
    return event_text(RunFailed(error=error, run_id=run_id, path=(runner_id,), seq=seq, time=at))


def event_of_text(text: str) -> WrittenEvent | None:
    """Return the event of a text; None if this version does not know it."""
    try:
        data: dict[str, Any] = json.loads(text)
        kind = _KINDS[data.pop("type")]
        shown = [tuple(each) for each in data.pop("shown", ())]
        given = {name: _read(name, each) for name, each in data.items() if name in names_of(kind)}
        return WrittenEvent(kind(**given), shown)
    except Exception:  # noqa: BLE001 (a later version wrote it: the events after it are of use still)
        return None


_BEGINNINGS = {"TurnStarted": "turn", "ToolStarted": "call", "ChildStarted": "child_run_id"}
_ENDS = {"TurnFinished": "turn", "ToolFinished": "call", "ChildFinished": "child_run_id"}


def begun_in(texts: Iterable[str]) -> set[int | str]:
    """Return what began in events of a run and has not ended: numbers of turns, ids of calls, ids of runs inside."""
    begun = set[int | str]()
    for text in texts:
        data: dict[str, Any] = json.loads(text)
        kind = data.get("type", "")
        name = _BEGINNINGS.get(kind) or _ENDS.get(kind)
        if kind in ("RunFinished", "RunFailed"):
            begun.clear()
        elif name is not None:
            key = data[name]["id"] if name == "call" else data[name]
            (begun.add if kind in _BEGINNINGS else begun.discard)(key)
    return begun


def _same(data: object) -> object:
    return data


def _read(name: str, data: Any) -> Any:
    return _FORMS[name].read(data) if name in _FORMS and data is not None else data


_KINDS: Mapping[str, type[Event]] = {each.__name__: each for each in get_args(Event)}


_FORMS: Mapping[str, Form] = {
    "path": Form(list, tuple),
    "keys": Form(list, tuple),
    "call": adapted(ToolCall),
    "result": adapted(ToolResult),
    "response": adapted(ModelTurn),
    "usage": adapted(Usage),
    "output": Form(plain_value, _same),
    "error": Form(error_data, error_of),
    "outcome": Form(outcome_data, outcome_of),
}
