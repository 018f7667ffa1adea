"""A place among the events of a run, at which a reader goes on."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from understudy.vocabulary.runs.events import Event, PartialOutput, ReasoningDelta, TextDelta, ToolCallDelta

SHAPE = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18}))?")


class EventPosition(NamedTuple):
    """The place after an event, or after some characters of a turn's deltas."""

    seq: int
    turn: int = 0
    attempt: int = 0
    offset: int = 0

    @classmethod
    def of(cls, given: object) -> EventPosition | None:
        """Read what a caller gives as `after`; None for the place before the first event.

        Raises:
            ValueError: it is a text, but no event's id, or a negative number.
            TypeError: it is neither a number, a text nor None.
        """
        if given is None or given == "":  # a browser that has no event yet sends no Last-Event-ID, or an empty one
            return None
        if isinstance(given, bool) or not isinstance(given, int | str):
            raise TypeError(f"after must be an event's seq or id, or None; got {given!r}")
        found = SHAPE.fullmatch(str(given))
        if found is None:
            raise ValueError(f"after must be an event's seq, such as 12, or its id, such as '12.3.1.87'; got {given!r}")
        return cls(*[int(each) for each in found.groups(default="0")])

    def rest_of(self, event: Event) -> Event | None:
        """Return an event as a reader gets it that goes on here: whole, in part, or None if it had all of it."""
        if isinstance(event, PartialOutput):
            place = event.turn, event.attempt, event.offset
            return event if event.seq > self.seq or (event.seq == self.seq and place > self[1:]) else None
        if not isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta):
            return event if event.seq > self.seq else None
        if event.seq != self.seq or not self.turn:
            return event if event.seq >= self.seq else None
        if (event.turn, event.attempt) != (self.turn, self.attempt):
            return event if (event.turn, event.attempt) > (self.turn, self.attempt) else None
        had = self.offset - event.offset
        if had <= 0:
            return event
        return replace(event, text=event.text[had:], offset=self.offset) if had < len(event.text) else None
