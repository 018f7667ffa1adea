"""Finds the parts of one run in its events: steps, texts, reasonings and tool calls.

A reader may begin in the middle: a part whose beginning it has missed begins with the first event of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from understudy.vocabulary.messages import FinishReason, ToolCall
from understudy.vocabulary.runs.events import (
    Event,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolFinished,
    ToolStarted,
    TurnDropped,
    TurnFinished,
    TurnStarted,
)
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Outcome

from .parts import Mark, Other, StepBegan, StepEnded, TextBegan, TextEnded, TextGrew, TextKind, TurnVoid
from .shown_calls import ShownCalls

DROPPED = "Not run: the turn was dropped."
WENT_ON = "Not run: the run went on without it."


class RunParts:
    """Finds the parts of a run. For one thread at a time.

    Args:
        run_id: of the run.
        is_inner: whether the run is inside of the one that the front end follows.
        shown: ids of tool calls that the front end has from before a pause.
    """

    __slots__ = (
        "_attempt",
        "_from_start",
        "_ids",
        "_in_step",
        "_kind",
        "_run_id",
        "_seen",
        "_taken",
        "_text_id",
        "_turn",
        "calls",
        "finish_reason",
    )

    def __init__(self, run_id: str, *, is_inner: bool = False, shown: Sequence[str] = ()) -> None:
        self._run_id = run_id
        self.calls = ShownCalls(run_id, is_inner=is_inner, shown=shown)
        self.finish_reason: FinishReason = "stop"
        """Of the last turn."""
        self._turn = 0
        self._attempt = 0
        """Of the turn; 0 before its first delta."""
        self._in_step = False
        self._from_start = True
        """Whether the first delta of the attempt was seen."""
        self._kind: TextKind | None = None
        """Of the text that is open; None without one."""
        self._text_id = ""
        self._seen: set[TextKind] = set()
        """What was shown of the attempt."""
        self._ids: list[str] = []
        """Of the texts of the turn."""
        self._taken: set[str] = set()

    def read(self, event: Event) -> Iterator[Mark]:
        """Yield what an event begins, adds to and ends. The last event of a run is for `finish` and `end`."""
        match event:
            case TextDelta():
                yield from self._grow("text", event)
            case ReasoningDelta():
                yield from self._grow("reasoning", event)
            case ToolCallDelta():
                yield from self._enter(event.turn, event.attempt, event.offset)
                yield from self._close_text()
                yield from self.calls.write(event, self._first_text_id(), from_start=self._from_start)
            case TurnStarted():
                yield from self._begin_step(event.turn)
            case TurnFinished():
                yield from self._finish_turn(event)
            case TurnDropped():
                yield from self._drop(event)
            case ToolStarted():
                yield from self.show(event.call)
            case ToolFinished():
                yield from self._close_text()
                yield from self.calls.done(event, self._first_text_id())
            case _:
                yield Other(event)

    def show(self, call: ToolCall) -> Iterator[Mark]:
        """Yield the parts of a call that is whole, as far as they were not there."""
        yield from self._close_text()
        yield from self.calls.show(call, self._first_text_id())

    def finish(self, outcome: Outcome[object]) -> Iterator[Mark]:
        """Yield the run's last text, if no turn has shown it: that of a group, or of an answer by a tool."""
        yield from self._close_text()
        text = outcome.text if isinstance(outcome, Complete) else ""
        text = outcome.last_text if isinstance(outcome, Incomplete) else text
        if text and "text" not in self._seen:
            yield from self._whole("text", text, f"{self._run_id}.answer")

    def end(self, why: str, keep: Collection[str] = ()) -> Iterator[Mark]:
        """Yield the end of all that is open.

        Args:
            why: what a call without a result is told to have come to.
            keep: ids of calls that stay open: they wait for a person, or for a run inside that waits for one.
        """
        yield from self._close_text()
        yield from self.calls.void(why, keep)
        if self._in_step:
            self._in_step = False
            yield StepEnded(self._turn)

    def open_text(self, event: TextDelta) -> str:
        """Return the id of the open text if an event only adds to it, else an empty string."""
        is_open = self._kind == "text" and event.turn == self._turn and event.attempt == self._attempt
        return self._text_id if is_open and event.text and event.run_id == self._run_id else ""

    # --- texts

    def _grow(self, kind: TextKind, event: TextDelta | ReasoningDelta) -> Iterator[Mark]:
        yield from self._enter(event.turn, event.attempt, event.offset)
        if not event.text:
            return
        if self._kind != kind:
            yield from self._close_text()
            yield self._open_text(kind)
        yield TextGrew(kind, self._text_id, event.text)

    def _open_text(self, kind: TextKind, id: str = "") -> Mark:
        self._kind = kind
        self._seen.add(kind)
        self._text_id = self._new_id(id or self._id_of(kind))
        self._ids.append(self._text_id)
        return TextBegan(kind, self._text_id)

    def _close_text(self) -> Iterator[Mark]:
        if self._kind is not None:
            yield TextEnded(self._kind, self._text_id)
            self._kind = None

    def _whole(self, kind: TextKind, text: str, id: str = "") -> Iterator[Mark]:
        yield self._open_text(kind, id)
        yield TextGrew(kind, self._text_id, text)
        yield from self._close_text()

    def _first_text_id(self) -> str:
        """Return the id of the first text of the attempt; empty if the reader has not seen which turn it is."""
        return f"{self._run_id}.{self._turn}.{self._attempt or 1}" if self._turn else ""

    def _id_of(self, kind: TextKind) -> str:
        first = self._first_text_id()
        return first if kind == "text" else f"{first}.thoughts"

    def _new_id(self, wanted: str) -> str:
        id, again = wanted, 1
        while id in self._taken:
            again += 1
            id = f"{wanted}.{again}"
        self._taken.add(id)
        return id

    # --- turns

    def _enter(self, turn: int, attempt: int, offset: int) -> Iterator[Mark]:
        """Come to the attempt that a delta is of."""
        if turn != self._turn or not self._in_step:
            yield from self._begin_step(turn)
        if attempt != self._attempt:
            if self._attempt:
                yield from self._close_text()
                yield from self.calls.void(DROPPED)
                self.calls.begin_turn()
                self._seen.clear()
            self._attempt = attempt
            self._from_start = offset == 0

    def _begin_step(self, turn: int) -> Iterator[Mark]:
        yield from self.end(WENT_ON)
        self.calls.begin_turn()
        self._turn, self._attempt, self._in_step, self._from_start = turn, 0, True, True
        self._seen.clear()
        self._ids.clear()
        yield StepBegan(turn)

    def _finish_turn(self, event: TurnFinished) -> Iterator[Mark]:
        response = event.response
        if event.turn != self._turn or not self._in_step:
            yield from self._begin_step(event.turn)
        yield from self._close_text()
        if response.text and "text" not in self._seen:
            if response.thinking and "reasoning" not in self._seen:
                yield from self._whole("reasoning", response.thinking)
            yield from self._whole("text", response.text)
        yield from self.calls.end_turn(response.tool_calls)
        self.finish_reason = response.finish_reason

    def _drop(self, event: TurnDropped) -> Iterator[Mark]:
        if event.turn != self._turn or not self._in_step:
            yield TurnVoid(event, (), in_step=False)
            return
        yield from self._close_text()
        ids = (*self._ids, *self.calls.ids())
        yield from self.calls.void(DROPPED)
        self.calls.begin_turn()
        yield TurnVoid(event, ids, in_step=True)
        self._seen.clear()
        self._ids.clear()
