"""The delta events of a turn: of one that is shown while it is written, and of one that came whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from understudy.vocabulary.messages import ModelTurn
from understudy.vocabulary.runs.events import Event, ReasoningDelta, TextDelta, ToolCallDelta

from .fact_events import About
from .shown_turn import Segment, SegmentKind, ShownTurn


def delta_of(shown: ShownTurn, segment: Segment, text: str, offset: int, about: About) -> Event:
    """Return the event of some text of a segment; `about` has the number of the event before it."""
    turn, attempt = shown.turn, shown.attempt
    match segment.kind:
        case "text":
            return TextDelta(text=text, turn=turn, attempt=attempt, offset=offset, **about)
        case "reasoning":
            return ReasoningDelta(text=text, turn=turn, attempt=attempt, offset=offset, **about)
        case "call":
            return ToolCallDelta(
                text=text,
                turn=turn,
                attempt=attempt,
                offset=offset,
                index=segment.index,
                name=segment.name,
                call_id=segment.call_id,
                **about,
            )


def shown_data(segments: Sequence[Segment], response: ModelTurn) -> list[tuple[str, str, int, str, str]]:
    """Return the parts of a turn that was shown as plain data; empty if `deltas_of` gives the same deltas."""
    shown: list[tuple[str, str, int, str, str]]
    shown = [(each.kind, "".join(each.pieces), each.index, each.call_id, each.name) for each in segments]
    whole = [("reasoning", response.thinking), ("text", response.text)]
    return [] if [each[:2] for each in shown] == [each for each in whole if each[1]] else shown


def deltas_of_data(
    data: Sequence[tuple[str, str, int, str, str]], turn: int, attempt: int, about: About
) -> Iterator[Event]:
    """Return the deltas of a turn whose parts `shown_data` gave, each in one."""
    shown = ShownTurn(turn)
    shown.attempt = attempt
    offset = 0
    for kind, text, index, call_id, name in data:
        yield delta_of(shown, Segment(cast(SegmentKind, kind), index, call_id, name), text, offset, about)
        offset += len(text)


def deltas_of(response: ModelTurn, turn: int, attempt: int, about: About) -> Iterator[Event]:
    """Return the deltas of a turn that came whole: its reasoning and its text, each in one."""
    thinking, text = response.thinking, response.text
    if thinking:
        yield ReasoningDelta(text=thinking, turn=turn, attempt=attempt, **about)
    if text:
        yield TextDelta(text=text, turn=turn, attempt=attempt, offset=len(thinking), **about)
