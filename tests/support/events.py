"""What tests ask of the events of a run."""

from __future__ import annotations

from collections.abc import Iterable

import understudy as us

DELTAS = us.TextDelta | us.ReasoningDelta | us.ToolCallDelta


def numbers(events: Iterable[us.Event]) -> list[int]:
    """Return the numbers of the events that have one of their own: all but the deltas."""
    return [event.seq for event in events if not isinstance(event, DELTAS)]


def numbered(events: Iterable[us.Event]) -> list[us.Event]:
    """Return the events that have a number of their own."""
    return [event for event in events if not isinstance(event, DELTAS)]


def shown(events: Iterable[us.Event]) -> dict[tuple[int, int], str]:
    """Return turn and attempt -> what the deltas of it say together; none leaves a gap or comes twice."""
    found: dict[tuple[int, int], str] = {}
    for event in events:
        if isinstance(event, DELTAS):
            key = event.turn, event.attempt
            assert event.offset == len(found.get(key, ""))
            found[key] = found.get(key, "") + event.text
    return found
