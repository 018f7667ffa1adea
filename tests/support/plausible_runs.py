"""Runs as their events tell them, made up for property tests: streamed or not, with tools, pauses, failures and runs inside."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hypothesis import strategies as st

import understudy as us
from understudy.vocabulary.runs.events import Event

from .run_events import ARGUMENTS, TEXTS

Draw = Callable[[st.SearchStrategy[Any]], Any]

NAMES = st.sampled_from(["look", "pay", "ask"])
IDS = st.sampled_from(["", "a", "b", "c/d", "é", "a"])
FAILURES: st.SearchStrategy[BaseException] = st.sampled_from(
    [us.RateLimited("slow down"), us.RunCancelled("stopped"), ValueError("wrong")]
)


@dataclass
class Told:
    """The events of a run, and what a reader of all of them must have been shown."""

    events: list[Event] = field(default_factory=list[Event])
    texts: list[str] = field(default_factory=list[str])
    """Text of each turn that stands."""
    finished: list[us.ToolFinished] = field(default_factory=list[us.ToolFinished])
    waiting: list[us.ToolCall] = field(default_factory=list[us.ToolCall])
    """Calls that wait for a person at the end."""


@dataclass
class _Run:
    draw: Draw
    run_id: str
    path: tuple[str, ...]
    parent: str | None
    told: Told
    own: Told
    children: list[int]
    """How many runs there are, over all."""

    def tell(self, kind: Callable[..., Event], **values: Any) -> None:
        event = kind(run_id=self.run_id, path=self.path, parent_run_id=self.parent, **values)
        self.told.events.append(event)

    def inside(self, name: str) -> _Run:
        self.children[0] += 1
        run_id = f"run-{self.children[0]}"
        return _Run(self.draw, run_id, (*self.path, name), self.run_id, self.told, Told(), self.children)

    def some(self, of: int) -> bool:
        return bool(self.draw(st.integers(1, of)) == 1)


@st.composite
def told_runs(draw: Draw) -> Told:
    """Return the events of a run, from its first to its last one."""
    told = Told()
    run = _Run(draw, "run-1", ("desk",), None, told, told, [1])
    if run.some(4):
        _group(run, 2)
        run.tell(us.RunFinished, outcome=us.Complete(text=draw(TEXTS), output=""))
        return told
    ending = _agent(run, 2)
    if isinstance(ending, BaseException):
        run.tell(us.RunFailed, error=ending)
    else:
        run.tell(us.RunFinished, outcome=ending)
    return told


def _group(run: _Run, depth: int) -> None:
    children: list[tuple[int, _Run]] = []
    for position in range(run.draw(st.integers(1, 3))):
        child = run.inside(f"child-{position}")
        about = {"position": position, "runner_id": child.path[-1], "child_run_id": child.run_id}
        run.tell(us.ChildStarted, **about)
        children.append((position, child))
        ending = _agent(child, depth - 1)
        is_error = isinstance(ending, BaseException)
        run.tell(us.ChildFinished, **about, **{"error" if is_error else "outcome": ending})


def _agent(run: _Run, depth: int) -> us.Outcome[object] | BaseException:
    """Tell an agent's run without its last event, and return its end."""
    text = ""
    for turn in range(1, run.draw(st.integers(1, 3)) + 1):
        run.tell(us.TurnStarted, turn=turn)
        response = _turn(run, turn)
        if response is None:
            return cast(BaseException, run.draw(FAILURES))
        text = response.text
        run.tell(us.TurnFinished, turn=turn, response=response)
        if run.some(6):
            run.tell(us.TurnDropped, turn=turn, text=text, by="guard", attempt=1)
            continue
        if text:
            run.own.texts.append(text)
        ending = _tools(run, turn, response, depth)
        if ending is not None:
            return ending
    if run.some(5):
        return us.NeedsInput(question="Which?", token="t.1", pauses=(us.Pause(id="question", question="Which?"),))
    if run.some(5):
        return us.Incomplete(last_text=text)
    return us.Complete(text=text or run.draw(TEXTS), output="")


def _turn(run: _Run, turn: int) -> us.ModelTurn | None:
    """Tell the deltas of every attempt at a turn, and return the response of the last attempt; None if all failed."""
    for attempt in range(1, 4):
        parts = run.draw(st.lists(st.sampled_from(["text", "reasoning", "call"]), max_size=4))
        made = tuple([_part(run, kind) for kind in parts])
        if run.some(3) and attempt == 1:  # the model does not stream
            response = us.ModelTurn(made)
            if response.text and run.some(2):
                run.tell(us.TextDelta, text=response.text, turn=turn)
            return response
        deltas = _deltas(run, turn, attempt, made)
        if not run.some(4):
            run.told.events += deltas
            return us.ModelTurn(made)
        shown = deltas[: run.draw(st.integers(0, len(deltas)))]
        run.told.events += shown
        text = "".join([each.text for each in shown if isinstance(each, us.TextDelta)])
        run.tell(us.TurnDropped, turn=turn, text=text, by="", attempt=attempt)
        run.tell(us.RetryScheduled, what="model", attempt=attempt, wait=0.1, error=us.RateLimited("slow down"))
    return None


def _part(run: _Run, kind: str) -> us.Part:
    if kind == "call":
        arguments = run.draw(ARGUMENTS)
        bad = "{oops" if run.some(8) else None
        return us.ToolCall(run.draw(IDS), run.draw(NAMES), {} if bad else arguments, bad)
    text = run.draw(TEXTS)
    return us.TextPart(text) if kind == "text" else us.ReasoningPart(text)


def _deltas(run: _Run, turn: int, attempt: int, parts: tuple[us.Part, ...]) -> list[Event]:
    """Return what a reader gets of a turn that is written; pieces of calls may come between each other."""
    about: dict[str, Any] = {"run_id": run.run_id, "path": run.path, "parent_run_id": run.parent}
    about |= {"turn": turn, "attempt": attempt}
    found: list[Event] = []
    waiting: list[Event] = []
    for index, part in enumerate(parts):
        if isinstance(part, us.ToolCall):
            first, second = _halves(part.bad_arguments or json.dumps(dict(part.arguments)))
            late = run.some(3)
            called: dict[str, Any] = {"index": index, "name": part.name, **about}
            found.append(us.ToolCallDelta(text=first, call_id="" if late else part.id, **called))
            waiting.append(us.ToolCallDelta(text=second, call_id=part.id, **called))
        elif isinstance(part, (us.TextPart, us.ReasoningPart)):
            kind = us.TextDelta if isinstance(part, us.TextPart) else us.ReasoningDelta
            found += [kind(text=half, **about) for half in _halves(part.text) if half]
        if run.some(2):
            found += waiting
            waiting = []
    offset = 0
    placed: list[Event] = []
    for each in [*found, *waiting]:
        assert isinstance(each, us.TextDelta | us.ReasoningDelta | us.ToolCallDelta)
        placed.append(replace(each, offset=offset))
        offset += len(each.text)
    return placed


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _tools(run: _Run, turn: int, response: us.ModelTurn, depth: int) -> us.Outcome[object] | BaseException | None:
    calls = _with_ids(response, turn)
    under_way: list[us.ToolCall] = []
    waiting = [call for call in calls if run.some(5)]
    for call in [call for call in calls if call not in waiting]:
        run.tell(us.ToolStarted, call=call)
        under_way.append(call)
        if run.some(3):
            run.tell(us.ToolProgress, call=call, text="half", done=1, total=2)
        if depth and run.some(3):
            inner = run.inside("helper")
            if isinstance(_agent(inner, depth - 1), BaseException):
                under_way.append(call)
        if run.some(2):
            _finish(run, under_way)
    _finish(run, under_way)
    if waiting:
        run.own.waiting += waiting
        pause = us.Pause(id="approval", path=run.path[-1:], calls=tuple(waiting))
        below = us.Pause(id="child/x/approval", path=("desk", "helper"), calls=(us.ToolCall("i", "pay", {"cents": 1}),))
        pauses = (pause, below) if run.some(3) else (pause,)
        return us.NeedsApproval(calls=tuple(waiting), token="t.1", pauses=pauses)
    if run.some(8):
        return cast(BaseException, run.draw(FAILURES))
    return None


def _finish(run: _Run, calls: list[us.ToolCall]) -> None:
    for call in dict.fromkeys([call.id for call in calls]):
        found = next(each for each in calls if each.id == call)
        is_error = run.some(3)
        parts = (us.ImagePart("AAAA"), us.FilePart(url="http://x/y")) if run.some(4) else ()
        kind: Any = "raised" if is_error else ""
        result = us.ToolResult(found.id, run.draw(TEXTS), is_error, kind, found.name, parts)
        run.tell(us.ToolFinished, call=found, result=result)
        event = run.told.events[-1]
        assert isinstance(event, us.ToolFinished)
        run.own.finished.append(event)
    calls.clear()


def _with_ids(response: us.ModelTurn, turn: int) -> list[us.ToolCall]:
    """Return the calls of a turn as the runtime runs them: an id that is empty or repeated is made up."""
    seen: set[str] = set()
    found: list[us.ToolCall] = []
    for position, call in enumerate(response.tool_calls):
        if not call.id or call.id in seen:
            call = replace(call, id=f"call-{turn}-{position}", made_up_id=True)
        seen.add(call.id)
        found.append(call)
    return found
