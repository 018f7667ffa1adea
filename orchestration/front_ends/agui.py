"""The events of a run as AG-UI 1.0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from understudy.errors import RunCancelled, message_of
from understudy.vocabulary.messages import JsonObject
from understudy.vocabulary.runs.events import (
    ChildFinished,
    ChildStarted,
    Event,
    RunFailed,
    RunFinished,
    TextDelta,
    TurnStarted,
)
from understudy.vocabulary.runs.outcomes import NeedsApproval, NeedsInput, Outcome

from .agui_interrupts import interrupt_json
from .agui_marks import Plain, agui_events
from .agui_subagents import Subagents
from .event_json import outcome_json
from .interrupts import Interrupt, interrupts_of
from .run_parts import RunParts
from .sse import json_text, quoted

VERSION = "1.0"
ENDED = "Not run: the run has ended."


class AguiEncoder:
    """Turns the events of one run into events of AG-UI 1.0. For one reader, and one thread at a time.

    A text is a message, a turn a step, a run inside a subagent. A pause is `RUN_FINISHED` with one interrupt for each question
    and each call that needs a decision; `answers_of` reads the answers. What has no name in AG-UI is `CUSTOM`, with
    the name `understudy.` and the event's type, and the event as `event_json` tells it.

    Args:
        thread_id: as the client's request has it.
        run_id: as the client's request has it; it is not the id of the run here.
        inner: whether texts and calls of runs inside are told too, as work of subagents. Their beginnings and ends are always.
        shown: ids of the tool calls that the client has already, if the run goes on after a pause.
    """

    __slots__ = ("_begun", "_inner", "_over", "_parts", "_run", "_shown", "_subagents", "_text", "_text_id")

    def __init__(self, *, thread_id: str, run_id: str, inner: bool = False, shown: Sequence[str] = ()) -> None:
        self._run: Plain = {"threadId": thread_id, "runId": run_id}
        self._inner = inner
        self._shown = tuple(shown)
        self._parts: RunParts | None = None
        self._subagents = Subagents(shown)
        self._begun = False
        self._over = False
        self._text_id = ""
        self._text = ""
        """The beginning of each event that adds to the text `_text_id`."""

    def encode(self, event: Event) -> list[JsonObject]:
        """Return what the client is told of an event; nothing after the end of the run."""
        if self._over:
            return []
        told: list[JsonObject] = []
        if not self._begun:
            self._begun = True
            told.append({"type": "RUN_STARTED", **self._run, "protocolVersion": VERSION})
        if len(event.path) > 1:
            told += self._of_inner(event)
        else:
            told += self._of_outer(event)
        return told

    def encode_bytes(self, event: Event) -> bytes:
        """Return the same as `text/event-stream`."""
        if type(event) is TextDelta and self._parts is not None and len(event.path) < 2:
            id = self._parts.open_text(event)
            if id and not self._over:
                if id != self._text_id:
                    self._text_id = id
                    self._text = f'data: {{"type":"TEXT_MESSAGE_CONTENT","messageId":{quoted(id)},"delta":'
                return f"{self._text}{quoted(event.text)}}}\n\n".encode()
        return "".join([f"data: {json_text(each)}\n\n" for each in self.encode(event)]).encode()

    def _of_inner(self, event: Event) -> Iterator[Plain]:
        if self._inner and not isinstance(event, (RunFinished, RunFailed)):
            yield from self._subagents.told(event)

    def _of_outer(self, event: Event) -> Iterator[Plain]:
        parts = self._parts
        if parts is None:
            parts = self._parts = RunParts(event.run_id, shown=self._shown)
        match event:
            case RunFinished(outcome=outcome):
                self._over = True
                yield from self._finished(parts, outcome)
            case RunFailed(error=error):
                self._over = True
                yield from self._failed(parts, error)
            case ChildStarted() | ChildFinished():
                yield from self._subagents.child(event, None)
            case _:
                if isinstance(event, TurnStarted):
                    yield from self._subagents.end_below(None)
                yield from agui_events(parts.read(event))

    def _finished(self, parts: RunParts, outcome: Outcome[object]) -> Iterator[Plain]:
        waits = isinstance(outcome, (NeedsInput, NeedsApproval))
        yield from self._subagents.end_below(None, is_suspended=waits)
        if not waits:
            yield from self._subagents.end_waiting()
        yield from agui_events(parts.finish(outcome))
        asked = interrupts_of(outcome) if isinstance(outcome, (NeedsInput, NeedsApproval)) else []
        for one in asked:
            if one.call is not None and not one.is_inner:
                yield from agui_events(parts.show(one.call))
        calls = [_call_id(parts, one) for one in asked]
        yield from agui_events(parts.end(ENDED, parts.calls.ids() if asked else ()))
        told: Plain = {"type": "RUN_FINISHED", **self._run, "result": outcome_json(outcome)}
        if asked:
            told["outcome"] = {
                "type": "interrupt",
                "interrupts": [interrupt_json(one, id) for one, id in zip(asked, calls, strict=True)],
            }
        else:
            told["outcome"] = {"type": "success"}
        yield told

    def _failed(self, parts: RunParts, error: BaseException) -> Iterator[Plain]:
        yield from self._subagents.end_below(None, error=error)
        yield from agui_events(parts.end(ENDED))
        if isinstance(error, RunCancelled):
            yield {"type": "RUN_FINISHED", **self._run, "outcome": {"type": "cancelled"}}
        else:
            yield {"type": "RUN_ERROR", "message": message_of(error), "code": type(error).__name__}


def _call_id(parts: RunParts, asked: Interrupt) -> str:
    return "" if asked.call is None or asked.is_inner else parts.calls.id_of(asked.call)
