"""The head of a run in its journal: the machine without what stands in other rows, and what changes with each step beside it.

The message that closes a round may be written without a head. It then says what has changed since the head was written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
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


def head_row(machine: str, events: int, begun: Collection[str] = (), messages: int | None = None) -> JournalRow:
    """Return the row of a machine.

    Args:
        machine: as JSON.
        events: the number of the next event.
        begun: ids of the calls of the open round that began.
        messages: how many there are while the round is open; None if no round is open.
    """
    ids = f'"begun":[{",".join([json.dumps(id) for id in sorted(begun)])}],' if begun else ""
    count = "" if messages is None else f'"messages":{messages},'
    return JournalRow(HEAD, "", f'{{"events":{events},{ids}{count}"machine":{machine}}}')


def closing_row(index: int, results: Iterable[str], events: int, seconds: float) -> JournalRow:
    """Return the row of the message that closes a round, if nothing else has changed since the head was written.

    Args:
        index: of the message.
        results: each as JSON, or the id of its call as JSON if a row of its own has it.
        events: the number of the next event.
        seconds: for which the run was active.
    """
    return JournalRow(MESSAGE, str(index), f'{{"closes":[{events},{seconds!r}],"results":[{",".join(results)}]}}')


def head_of(rows: Mapping[tuple[str, str], str]) -> Head:
    """Return the head of a run that has these rows, with its round closed if a later message closed it.

    Raises:
        KeyError: there is none.
        ValueError: it is no JSON.
    """
    data = json.loads(rows[HEAD, ""])
    machine, later = data["machine"], rows.get((MESSAGE, str(data.get("messages", ""))))
    if later is None:
        return Head(machine, data["events"], frozenset(data.get("begun", ())))
    events, seconds = json.loads(later)["closes"]
    machine["state"] |= {"phase": "model", "round": None, "seconds": seconds}
    return Head(machine, events, frozenset())


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
