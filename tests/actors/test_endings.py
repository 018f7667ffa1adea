"""Ends of runs: whatever fails on the way, the reply completes, what the run held is free again, and somebody is told."""

from __future__ import annotations

import functools
import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished
from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.cells.cell import Cell
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.memory.conversation_queue import Lease
from understudy.actors.memory.conversations import Conversations
from understudy.actors.pauses.error_tokens import ErrorTokens
from understudy.actors.pauses.tokens import Tokens
from understudy.actors.run_view.log import RunLog
from understudy.actors.runs import outcomes, works
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.callbacks import CallbackDispatcher
from understudy.actors.runs.group_actor import GroupRunActor
from understudy.actors.runs.group_record import GroupRunRecord
from understudy.actors.runs.ownership import AbandonedWork
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.run_actor import AgentRunActor
from understudy.actors.runs.turns import RunTurns
from understudy.actors.runs.watchdog import Watchdog
from understudy.actors.system import run_crashes, run_endings
from understudy.actors.system.run_crashes import RunCrashes
from understudy.actors.system.run_endings import SystemRunEndings
from understudy.actors.system.run_manager import Admission, RunManager
from understudy.actors.threads.slots import Slots
from understudy.actors.waiting.graph import graph
from understudy.orchestration.agent.run import AgentRun
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.artifacts import Artifacts
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.context.session import SessionState
from understudy.vocabulary.messages import TextPart
from understudy.vocabulary.runs.handles import RunHandle

BOUND = 5.0  # Seconds in which each of these runs must end.


# --- a model that returns something else than a turn


async def later() -> us.ModelTurn:
    return says("too late")


def turn(**fields: Any) -> us.ModelTurn:
    given: dict[str, Any] = {"parts": says("hello").parts, **fields}
    return us.ModelTurn(**given)


NO_TURNS: dict[str, tuple[Callable[[], Any], str]] = {
    "None": (lambda: None, "got None, expected a ModelTurn"),
    "a string": (lambda: "hello", "got a value of type str"),
    "a dict": (lambda: {"text": "hello"}, "got a value of type dict"),
    "a message": (lambda: us.Message("assistant", (TextPart("hello"),)), "got a value of type Message"),
    "a coroutine": (later, "got a value of type coroutine.*plain function"),
    "no parts": (lambda: turn(parts=None), "its parts are None"),
    "a text for parts": (lambda: turn(parts="hello"), "its parts are a value of type str, expected a list or a tuple"),
    "a string among the parts": (lambda: turn(parts=("hello",)), r"parts\[0\] is a value of type str"),
    "text that is none": (lambda: turn(parts=(TextPart(3),)), r"parts\[0\].text is a value of type int"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "arguments as text": (lambda: turn(parts=(us.ToolCall("1", "f", "{}"),)), r"parts\[0\].arguments"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "a call without a name": (lambda: turn(parts=(TextPart("a"), us.ToolCall("1", None))), r"parts\[1\].name is None"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "no usage": (lambda: turn(usage=None), "its usage is None, expected a Usage"),
    "usage as a dict": (lambda: turn(usage={"input_tokens": 1}), "its usage is a value of type dict"),
    "tokens as text": (lambda: turn(usage=us.Usage("1", "2")), "usage.input_tokens is a value of type str"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "a bool as a count": (lambda: turn(usage=us.Usage(1, True)), "usage.output_tokens is a value of type bool"),
    "a negative count": (lambda: turn(usage=us.Usage(1, -2)), "usage.output_tokens is -2, expected at least 0"),
    "raw usage that is no mapping": (lambda: turn(usage=us.Usage(raw=3)), "usage.raw is a value of type int"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "another finish reason": (lambda: turn(finish_reason="end"), "finish_reason is 'end', expected one of 'stop'"),
    "a raw finish reason": (lambda: turn(raw_finish_reason=3), "raw_finish_reason is a value of type int"),
    "no model name": (lambda: turn(model=None), "its model is None, expected a string"),
}


class Returns:
    """A model object that returns what it is told to."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        made: us.ModelTurn = self._make()
        return made


@pytest.mark.parametrize(("make", "fault"), NO_TURNS.values(), ids=NO_TURNS)
def test_a_model_that_returns_no_turn_fails_its_run_and_the_error_says_what_it_returned(
    make: Callable[[], Any], fault: str
) -> None:
    with us.ActorSystem("shop", max_runs=1) as system:
        agent = us.Agent("clerk", model=Returns(make))

        error = agent.submit("go", system=system).exception(BOUND)

        assert isinstance(error, us.BadReply)
        assert "agent 'clerk' (Returns)" in str(error)
        with pytest.raises(us.BadReply, match=fault):
            raise error
        assert system.health().ok
        assert system.in_flight == 0
        assert finished(scripted_agent().submit("go", system=system).result(BOUND)).text == "ok"


def scripted_agent() -> us.Agent:
    return us.Agent("other", model=ScriptedModel([says("ok")]))


# --- every call in the ending paths raises in turn


class Broken(BaseException):
    """No exception that anything in the runtime may count on."""


class Fault:
    """A function of the runtime's that raises, instead of what it does or after it.

    Args:
        owner: the class or module that has it.
        name: its name there.
        after: whether it does its work first; needed where nothing else could do it.
    """

    def __init__(self, owner: Any, name: str, *, after: bool = False) -> None:
        self.hits = 0
        self._owner = owner
        self._name = name
        self._after = after

    def __str__(self) -> str:
        return f"{self._owner.__name__.split('.')[-1]}.{self._name}{' (after)' if self._after else ''}"

    def set(self, patch: pytest.MonkeyPatch) -> None:
        real = getattr(self._owner, self._name)

        @functools.wraps(real)
        def broken(*arguments: Any, **named: Any) -> NoReturn:
            if self._after:
                real(*arguments, **named)
            self.hits += 1
            raise Broken(str(self))

        patch.setattr(self._owner, self._name, broken)


REPLACED: list[tuple[Any, str]] = [
    (Account, "stop"),
    (AbandonedWork, "abandon"),
    (AgentRunRecord, "_let_go"),
    (AgentRun, "prepay"),
    (ErrorTokens, "give"),
    (AgentRun, "at_limit"),
    (SessionOverlay, "lasting_changes"),
    (SessionState, "apply"),
    (RunLog, "end"),
    (AgentRunRecord, "cut_off"),
    (SystemRunEndings, "complete"),
    (works.Pause, "do"),
    (SystemRunEndings, "park"),
    (RunManager, "crashed"),
    (Tokens, "issue"),
    (Tokens, "issue_for_limit"),
    (Tokens, "over"),
    (Artifacts, "snapshot"),
    (Lease, "note_stored"),
    (us.InMemoryMemory, "append"),
    (Cell, "count_failure"),
    (ActorCell, "fail"),
    (EventStream, "publish"),
    (Scope, "cancel"),
    (Scope, "take_retry"),
    (RunCrashes, "_tell"),
    (CallbackDispatcher, "tell"),
    (CallbackDispatcher, "ruling_of"),
    (GroupRunRecord, "lay_changes"),
    (outcomes, "done_outcome"),
    (RunTurns, "_note_time"),
    (AgentRunActor, "take_message"),
    (GroupRunActor, "_report"),
    (GroupRunActor, "_take_due"),
    (GroupRunActor, "_take_end"),
    (run_endings, "stamp"),
    (run_endings, "lasting"),
    (AgentRunRecord, "remember"),
    (outcomes, "paused_by"),
    (run_crashes, "_may_go_on"),
    (AgentRunRecord, "tell_error"),
]
"""What an ending can do without."""

FOLLOWED: list[tuple[Any, str]] = [
    (RunManager, "ended"),
    (GroupRunRecord, "_dismiss"),
    (Watchdog, "unwatch"),
    (Conversations, "leave"),
    (Lease, "end"),
    (Admission, "leave"),
    (Slots, "release"),
    (RunRecord, "_wind_up"),
]
"""What lets go of something, which nobody else would: it raises when that is done."""

FAULTS = [Fault(*each) for each in REPLACED] + [Fault(*each, after=True) for each in [*FOLLOWED, *REPLACED]]


class Watcher(us.AgentCallback):
    """Callbacks that do nothing, so that those who ask them are asked."""

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
        return us.Continue()

    def on_error(self, ctx: us.RunContext, error: BaseException) -> us.CallbackAction:
        return us.Continue()


class Raising(us.AgentCallback):
    """Callbacks that raise at the end."""

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
        raise Broken("on_finish")

    def on_error(self, ctx: us.RunContext, error: BaseException) -> us.CallbackAction:
        raise Broken("on_error")


def waits_for_its_end() -> str:
    """Wait until nobody wants the answer."""
    scope = us.current_scope()
    assert scope is not None
    ended = threading.Event()  # `scope.sleep` raises at once for a wait beyond the deadline, and the model would go on
    scope.on_cancel(ended.set)
    ended.wait(WAIT)
    return "waited"


def refund() -> str:
    return "refunded"


def broken_prompt(context: us.RunContext) -> str:
    raise LookupError("no prompt")


def broken_criterion(context: us.RunContext, text: str) -> bool:
    raise LookupError("no criterion")


def answers(request: us.ModelRequest) -> us.ModelTurn:
    return says("ok")


def asks_for(tool: str) -> FunctionModel:
    return FunctionModel(lambda request: calls(tool))


def fails(request: us.ModelRequest) -> us.ModelTurn:
    raise us.ProviderError("out of order")


Begin = Callable[[us.ActorSystem, us.InMemoryMemory, list[us.AgentCallback]], RunHandle[Any]]
IN_TALK: dict[str, Any] = {"conversation_id": "talk", "user_id": "ada"}


def begins(cancelled: bool = False, timeout: float | None = None, **definition: Any) -> Begin:
    def begin(system: us.ActorSystem, store: us.InMemoryMemory, callbacks: list[us.AgentCallback]) -> RunHandle[Any]:
        agent = us.Agent("clerk", memory=store, callbacks=callbacks, **definition)
        session = us.SessionState({"n": 1})
        handle = agent.submit("go", system=system, timeout=timeout, session=session, **IN_TALK)
        if cancelled:
            eventually(lambda: handle.done() or "running tool" in handle.status().doing, "the tool runs")
            handle.cancel()
        return handle

    return begin


def begins_group(make: Callable[..., Any], cancelled: bool = False, **definition: Any) -> Begin:
    def begin(system: us.ActorSystem, store: us.InMemoryMemory, callbacks: list[us.AgentCallback]) -> RunHandle[Any]:
        child = us.Agent("clerk", memory=store, callbacks=callbacks, **definition)
        other = us.Agent("other", model=FunctionModel(answers))
        handle: RunHandle[Any] = make("desk", [other, child]).submit("go", system=system, **IN_TALK)
        if cancelled:
            eventually(lambda: handle.done() or system.in_flight == 2, "the child runs")
            handle.cancel()
        return handle

    return begin


WAITS: dict[str, Any] = {"model": asks_for("waits_for_its_end"), "tools": [waits_for_its_end]}
PAUSES: dict[str, Any] = {"model": asks_for("refund"), "tools": [us.tool(approval=True)(refund)]}
LIMITED: dict[str, Any] = {"model": asks_for("refund"), "tools": [refund], "max_iterations": 1}

SITUATIONS: dict[str, Begin] = {
    "complete": begins(model=FunctionModel(answers)),
    "incomplete": begins(model=FunctionModel(answers), criteria=[us.KeywordCriteria("never")], max_continues=0),
    "failed": begins(model=FunctionModel(fails)),
    "at a limit": begins(**LIMITED),
    "paused": begins(**PAUSES),
    "crashed": begins(model=FunctionModel(answers), system_prompt=broken_prompt),
    "crashed with a turn at hand": begins(model=FunctionModel(answers), criteria=[broken_criterion]),
    "cancelled": begins(cancelled=True, **WAITS),
    "timed out": begins(timeout=0.05, **WAITS),
    "no turn": begins(model=Returns(lambda: None)),
    "sequence complete": begins_group(us.SequentialAgent, model=FunctionModel(answers)),
    "sequence failed": begins_group(us.SequentialAgent, model=FunctionModel(fails)),
    "sequence paused": begins_group(us.SequentialAgent, **PAUSES),
    "sequence cancelled": begins_group(us.SequentialAgent, cancelled=True, **WAITS),
    "parallel complete": begins_group(us.ParallelAgent, model=FunctionModel(answers)),
    "parallel crashed": begins_group(us.ParallelAgent, model=FunctionModel(answers), system_prompt=broken_prompt),
    "parallel cancelled": begins_group(us.ParallelAgent, cancelled=True, **WAITS),
}


def what_failed(error: BaseException | None) -> Iterator[BaseException]:
    """Iterate over an error, what it came of, and so on."""
    if error is None:
        return
    yield error
    yield from what_failed(error.__cause__)
    yield from what_failed(error.__context__)
    for each in getattr(error, "causes", ()):
        yield from what_failed(each)


def was_told(log: pytest.LogCaptureFixture, error: BaseException | None) -> bool:
    """Whether a `Broken` is in the log, or among the causes or notes of an error."""
    logged = [entry.exc_info[1] for entry in log.records if entry.exc_info]
    told = [each for root in (error, *logged) for each in what_failed(root)]
    notes = [note for each in told for note in getattr(each, "__notes__", ())]
    return any(isinstance(each, Broken) for each in told) or any("Broken" in note for note in notes)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_run_ends_whatever_fails_at_its_end_and_lets_go_of_all_it_has(
    fault: Fault, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "understudy")
    for name, begin in SITUATIONS.items():
        caplog.clear()
        _end_with(fault, name, begin, monkeypatch, caplog)
    assert fault.hits, "nothing here calls it"
    eventually(lambda: len(graph) == 0, "no wait is left in the graph of waits")


def _end_with(
    fault: Fault, name: str, begin: Begin, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    store, before = us.InMemoryMemory(), fault.hits
    with us.ActorSystem("shop", max_runs=1) as system:
        system.subscribe(lambda event: None, us.RunCrashed)
        with monkeypatch.context() as patch:
            fault.set(patch)
            error = begin(system, store, [Watcher()]).exception(BOUND)
            if fault.hits > before:
                eventually(lambda: was_told(log, error), f"{name}: somebody is told of {fault}")
        eventually(lambda: system.in_flight == 0, f"{name}: nothing is under way")
        assert system.health().runs == (), name
        eventually(lambda: len(graph) == 0, f"{name}: no wait is left in the graph")
        after = us.Agent("after", model=FunctionModel(answers), memory=store)
        assert finished(after.submit("go", system=system, **IN_TALK).result(BOUND)).text == "ok", name


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_run_ends_although_its_callbacks_raise_at_its_end(name: str, caplog: pytest.LogCaptureFixture) -> None:
    store = us.InMemoryMemory()
    with us.ActorSystem("shop", max_runs=1) as system:
        handle = SITUATIONS[name](system, store, [Raising()])

        error = handle.exception(BOUND)

        eventually(lambda: was_told(caplog, error), "somebody is told")
        eventually(lambda: system.in_flight == 0, "nothing is under way")
        after = us.Agent("after", model=FunctionModel(answers), memory=store)
        assert finished(after.submit("go", system=system, **IN_TALK).result(BOUND)).text == "ok"


def test_a_run_is_cancelled_although_what_on_cancel_was_given_leaves_with_an_exit() -> None:
    def leave() -> NoReturn:
        raise SystemExit("not even this")

    def wait() -> str:
        scope = us.current_scope()
        assert scope is not None
        scope.on_cancel(leave)
        return waits_for_its_end()

    with us.ActorSystem("shop", max_runs=1) as system:
        handle = us.Agent("clerk", model=asks_for("wait"), tools=[wait]).submit("go", system=system)
        eventually(lambda: "running tool" in handle.status().doing, "the tool runs")

        assert handle.cancel()

        assert isinstance(handle.exception(BOUND), us.RunCancelled)
        assert finished(scripted_agent().submit("go", system=system).result(BOUND)).text == "ok"


class Deps:
    """What is kept as long as its run is."""


@pytest.mark.parametrize("ending", ["deadline", "cancel", "a reader that left"])
def test_a_run_in_a_store_that_ended_while_its_model_worked_is_not_kept(ending: str, tmp_path: Path) -> None:
    system = us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/shop.db")
    go, asked, back = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def complete(request: us.ModelRequest) -> us.ModelTurn:
        asked.release()
        go.wait(WAIT)
        back.release()
        return says("too late")

    agent, kept = us.Agent("slow", model=FunctionModel(complete)), weakref.WeakSet[Deps]()

    def begun() -> us.RunHandle[str]:
        deps = Deps()
        kept.add(deps)
        return agent.submit("go", system=system, deps=deps, timeout=1.0 if ending == "deadline" else None)

    def read_and_left() -> None:
        deps = Deps()
        kept.add(deps)
        with agent.stream("go", system=system, deps=deps) as stream:
            next(iter(stream))

    def begun_and_ended() -> None:
        handles = [begun() for _ in range(20)]
        for _ in handles:
            assert asked.acquire(timeout=WAIT)
        for handle in handles:
            if ending == "cancel":
                handle.cancel()
            assert isinstance(handle.exception(WAIT), us.RunCancelled | us.RunTimedOut)

    if ending == "a reader that left":
        for _ in range(20):
            read_and_left()
    else:
        begun_and_ended()
    go.set()
    for _ in range(20):
        assert back.acquire(timeout=WAIT)
    for _ in range(20):
        finished(agent.run("go", system=system))

    until = time.monotonic() + 1.0
    while len(kept) > 2 and time.monotonic() < until:  # the last ones may be on their way
        gc.collect()
        threading.Event().wait(0.02)
    assert len(kept) <= 2
    system.stop()
