"""The head of a run in its journal: the machine without what stands in other rows, and what changes with each step beside it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from understudy.vocabulary.messages import Message, ToolCall

from .rows import HEAD, MESSAGE, JournalRow


class Head(NamedTuple):
    """A head that was read."""

    machine: dict[str, Any]
    """The machine, as JSON; a round that says nothing of its calls has those of the last message."""
    events: int
    """The number of the next event."""
    begun: frozenset[str]
    """Ids of the calls of the open round that began."""


def head_row(machine: str, events: int, begun: Collection[str] = ()) -> JournalRow:
    """Return the row of a machine, which is given as JSON."""
    ids = f'"begun":{json.dumps(sorted(begun))},' if begun else ""
    return JournalRow(HEAD, "", f'{{"events":{events},{ids}"machine":{machine}}}')


def head_of(rows: Mapping[tuple[str, str], str]) -> Head:
    """Return the head of a run that has these rows.

    Raises:
        KeyError: there is none.
        ValueError: it is no JSON.
    """
    data = json.loads(rows[HEAD, ""])
    return Head(data["machine"], data["events"], frozenset(data.get("begun", ())))


def has_calls_of(message: Message, calls: tuple[ToolCall, ...]) -> bool:
    """Whether calls are those of a message, all of them and unchanged, so that a head need not repeat them."""
    asked = [part for part in message.parts if isinstance(part, ToolCall)]
    return len(asked) == len(calls) and all(one is other for one, other in zip(asked, calls, strict=True))


def calls_of_round(head: Head, rows: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
    """Return the calls of the open round, as JSON; none if there is no open round."""
    round_ = head.machine["state"].get("round")
    if round_ is None:
        return []
    if "calls" in round_:
        calls: list[dict[str, Any]] = round_["calls"]
        return calls
    parts = json.loads(rows[MESSAGE, str(count_of(rows) - 1)])["parts"]
    return [part for part in parts if part["kind"] == "tool_call"]


def count_of(rows: Mapping[tuple[str, str], str]) -> int:
    """Return how many messages a run has. Raises `ValueError` if there is none."""
    return 1 + max([int(key) for kind, key in rows if kind == MESSAGE])
