"""What tests ask of the events of a run."""

from __future__ import annotations

from collections.abc import Iterable

import understudy as us

DELTAS = us.TextDelta | us.ReasoningDelta | us.ToolCallDelta


def numbers(events: Iterable[us.Event]) -> list[int]:
    """Return the numbers of the events that have one of their own: all but the deltas."""
    return [event.seq for event in events if not isinstance(event, DELTAS)]
