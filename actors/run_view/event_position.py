"""A place among the events of a run, at which a reader goes on.

A place inside of a turn may be one that no process knows any more: the process that showed the turn died, and another one asked
the model again. The reader is told that its part of the turn does not stand, and then what came in its place.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import NamedTuple, overload

from understudy.vocabulary.runs.events import (
    Event,
    PartialOutput,
    ReasoningDelta,
    RunFailed,
    RunFinished,
    TextDelta,
    ToolCallDelta,
    TurnDropped,
    TurnFinished,
)

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

    def check(self, last: int) -> None:
        """Refuse a place behind the last event of a run that is over: a reader would come back to it for ever.

        A place inside of a turn may be there: the process that showed the turn may have died. Its reader is told how the run ended.

        Args:
            last: the number of the run's last event; -1 if it is not known, and lies before this place.

        Raises:
            ValueError: the place is behind it.
        """
        if not self.turn and self.seq > last:
            known = "" if last < 0 else f", whose last one has the seq {last}"
            raise ValueError(f"after must be an event of this run{known}; got {self.seq}")

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


@overload
def rest_of(events: Iterator[Event], after: EventPosition) -> Generator[Event]: ...
@overload
def rest_of(events: Iterator[Event | None], after: EventPosition) -> Generator[Event | None]: ...
def rest_of(events: Iterator[Event | None], after: EventPosition) -> Generator[Event | None]:
    """Iterate over what a reader gets that goes on at a place; None among the events is passed on.

    Args:
        events: of the run, in order, from the place or from any place before it.
        after: where the reader goes on.

    Raises:
        ValueError: at the end of the events: the place is behind them.
    """
    rest = _Rest(after)
    last = -1
    for event in events:
        if event is None:
            yield event
        else:
            yield from rest.of(event)
            last = event.seq
    after.check(last)
    yield from rest.held()


class _Rest:
    """Cuts off what a reader had, event by event."""

    def __init__(self, after: EventPosition) -> None:
        self._after = after
        self._has_part = after.turn > 0
        """Whether the reader has a part of a turn that may not stand."""
        self._held: Event | None = None
        """An ending that the reader had, or that came in place of the turn that it has a part of, if nothing follows."""

    def of(self, event: Event) -> Iterator[Event]:
        """Return what the reader gets for an event."""
        self._held = None
        if self._has_part:
            yield from self._dropped(event)
        rest = self._after.rest_of(event)
        if rest is not None:
            yield rest

    def held(self) -> Iterator[Event]:
        """Return what the reader gets at the end of the events."""
        if self._held is not None:
            yield self._drop(self._held, self._held.seq)
            yield self._held

    def _dropped(self, event: Event) -> Iterator[Event]:
        """Return the event that takes back what the reader has of its turn, if this event shows that it does not stand."""
        at = self._after
        match event:
            case TextDelta() | ReasoningDelta() | ToolCallDelta() | PartialOutput() if event.turn == at.turn:
                if event.attempt > at.attempt or (event.attempt == at.attempt and event.seq != at.seq):
                    yield self._drop(event, event.seq)
            case TurnFinished(turn=at.turn):
                if event.attempts != at.attempt or event.seq <= at.seq:
                    yield self._drop(event, event.seq - 1)
                self._has_part = False
            case TurnDropped(turn=at.turn) if event.seq > at.seq:
                self._has_part = False
            case RunFinished() | RunFailed() if event.seq <= at.seq:
                self._held = event
            case _:
                pass

    def _drop(self, event: Event, seq: int) -> Event:
        turn, attempt = self._after.turn, self._after.attempt
        self._has_part = False
        self._after = EventPosition(seq)
        return TurnDropped(
            run_id=event.run_id,
            path=event.path,
            parent_run_id=event.parent_run_id,
            seq=seq,
            time=event.time,
            turn=turn,
            attempt=attempt,
            text="",
            by="",
        )
