"""`handle.events(inner=True)`: what happens in runs inside of a run, live and late, each run's events in their order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

import understudy as us
from tests.support.events import numbers
from tests.support.gates import Gate
from tests.support.scripts import WAIT
from tests.support.streaming import StreamedScript
from understudy.actors.run_view.event_reader import events_of
from understudy.actors.run_view.log import ChildBegan, ChildEnded, Delegated, RunLog
from understudy.actors.runs.record import RunRecord
from understudy.actors.system.run_manager import RunManager
from understudy.testing import FunctionModel, ScriptedModel, calls, says


def look(word: str) -> str:
    return f"saw {word}"


def clerk(id: str = "clerk") -> us.Agent:
    """Make an agent that looks once and then answers, however often it runs."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says(f"{id}: seen") if request.turn == 2 else calls("look", word=id)

    return us.Agent(id, model=FunctionModel(answer), tools=[look])


CLERK = ["TurnStarted", "TurnFinished", "ToolStarted", "ToolFinished", "TurnStarted", "TextDelta", "TurnFinished"]
"""What is told of such an agent inside of another run."""


def told(events: list[us.Event], *path: str) -> list[str]:
    return [type(event).__name__ for event in events if event.path == path]


def nested() -> us.SequentialAgent:
    return us.SequentialAgent("report", [us.ParallelAgent("panel", [clerk("a"), clerk("b")]), clerk("writer")])


def test_the_runs_inside_are_told_with_their_paths_in_the_order_of_each(system: us.ActorSystem) -> None:
    handle = nested().submit("go", system=system)

    events = list(handle.events(inner=True))

    children = ["ChildStarted", "ChildStarted", "ChildFinished", "ChildFinished"]
    assert told(events, "report", "panel", "a") == CLERK
    assert told(events, "report", "panel", "b") == CLERK
    assert told(events, "report", "writer") == CLERK
    assert sorted(told(events, "report", "panel")) == sorted(children)
    assert told(events, "report") == ["ChildStarted", "ChildFinished"] * 2 + ["RunFinished"]
    for run_id in {event.run_id for event in events}:
        seqs = numbers(event for event in events if event.run_id == run_id)
        assert seqs == list(range(len(seqs)))


def place(events: list[us.Event], wanted: Callable[[us.Event], bool]) -> list[int]:
    return [at for at, event in enumerate(events) if wanted(event)]


@pytest.mark.parametrize("late", [False, True])
def test_all_of_a_run_inside_stands_between_its_beginning_and_its_end(system: us.ActorSystem, late: bool) -> None:
    handle = nested().submit("go", system=system)
    if late:
        handle.result(WAIT)

    events = list(handle.events(inner=True))

    begun = [event for event in events if isinstance(event, us.ChildStarted)]
    assert len(begun) == 4
    for child in begun:
        own = place(events, lambda event: event.run_id == child.child_run_id)  # noqa: B023 (used at once)
        (end,) = place(
            events,
            lambda e: isinstance(e, us.ChildFinished) and e.child_run_id == child.child_run_id,  # noqa: B023
        )
        assert events.index(child) < own[0] < own[-1] < end
    assert isinstance(events[-1], us.RunFinished)
    assert len(place(events, lambda event: isinstance(event, us.RunFinished))) == 1


def test_late_events_are_the_same_each_time_they_are_read(system: us.ActorSystem) -> None:
    handle = nested().submit("go", system=system)
    live = list(handle.events(inner=True))

    assert list(handle.events(inner=True)) == list(handle.events(inner=True))
    assert {(event.run_id, event.seq) for event in live} == {
        (event.run_id, event.seq) for event in handle.events(inner=True)
    }


def test_without_inner_nothing_of_it_is_told(system: us.ActorSystem) -> None:
    handle = nested().submit("go", system=system)

    assert {event.path for event in handle.events()} == {("report",)}


def test_a_sub_agents_run_is_told_between_the_beginning_and_the_end_of_its_call() -> None:
    lead = us.Agent(
        "lead",
        model=ScriptedModel([calls("draft", input="x"), says("done")]),
        sub_agents=[us.SubAgent(us.SequentialAgent("desk", [clerk()]), name="draft")],
    )
    handle = lead.submit("go")

    events = list(handle.events(inner=True))

    assert told(events, "lead", "desk") == ["ChildStarted", "ChildFinished"]
    assert told(events, "lead", "desk", "clerk") == CLERK
    inside = place(events, lambda event: len(event.path) > 1)
    (begun,) = place(events, lambda event: isinstance(event, us.ToolStarted) and event.path == ("lead",))
    (ended,) = place(events, lambda event: isinstance(event, us.ToolFinished) and event.path == ("lead",))
    assert (begun, ended) == (inside[0] - 1, inside[-1] + 1)
    assert numbers(handle.events()) == list(range(len(numbers(handle.events()))))
    assert events == list(handle.events(inner=True))


def test_what_happens_inside_arrives_while_it_goes_on(system: us.ActorSystem) -> None:
    gate = threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 2:
            assert gate.wait(WAIT)
            return says("ok")
        return calls("look", word="x")

    waiting = us.Agent("a", model=FunctionModel(answer), tools=[look])
    group = us.ParallelAgent("p", [clerk("b"), us.SequentialAgent("s", [waiting])])

    for event in group.submit("go", system=system).events(inner=True):
        if isinstance(event, us.ToolFinished) and event.path == ("p", "s", "a"):
            assert event.result.content == "saw x"
            gate.set()

    assert gate.is_set()


def test_a_pause_inside_ends_the_events_with_that_of_the_outer_run(system: us.ActorSystem) -> None:
    asking = us.Agent("asking", model=ScriptedModel([says("__ask_user__: who?")]))
    lead = us.Agent("lead", model=ScriptedModel([calls("asking", input="x")]), sub_agents=[asking])

    events = list(us.SequentialAgent("s", [lead]).submit("go", system=system).events(inner=True))

    assert told(events, "s", "lead", "asking") == ["TurnStarted", "TextDelta", "TurnFinished"]
    assert told(events, "s") == ["ChildStarted", "ChildFinished", "RunFinished"]
    last = events[-1]
    assert isinstance(last, us.RunFinished) and isinstance(last.outcome, us.NeedsInput)


def test_a_call_that_was_given_up_tells_nothing_more_of_the_run_it_was() -> None:
    gate = Gate()
    slow = us.SubAgent(us.Agent("slow", model=FunctionModel(gate.then(says("late")))), timeout=0.05)
    lead = us.Agent("lead", model=ScriptedModel([calls("slow", input="x"), says("done")]), sub_agents=[slow])

    events = list(lead.submit("go").events(inner=True))
    gate.open()

    assert told(events, "lead", "slow") == ["TurnStarted"]
    (ended,) = [event for event in events if isinstance(event, us.ToolFinished)]
    assert ended.result.error_kind == "timed_out"


def test_a_group_that_is_cancelled_tells_what_there_was(system: us.ActorSystem) -> None:
    gate = Gate()
    handle = us.SequentialAgent("s", [us.Agent("a", model=FunctionModel(gate.then(says("late"))))]).submit(
        "go", system=system
    )
    assert gate.entered.wait(WAIT)
    handle.cancel()
    events = list(handle.events(inner=True))
    gate.open()

    assert told(events, "s", "a") == ["TurnStarted"]
    assert isinstance(events[-1], us.RunFailed)
    assert isinstance(events[-1].error, us.RunCancelled)


def test_a_child_is_told_of_that_asks_its_model_before_its_group_goes_on(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, handles, launch = Gate(), queue.SimpleQueue[us.RunHandle[object]](), RunManager.launch

    def launch_and_cancel(manager: RunManager, record: RunRecord, *, last: bool = False) -> None:
        launch(manager, record)  # on another thread, for this one waits
        if record.is_inner:
            assert gate.entered.wait(WAIT)
            handles.get(timeout=WAIT).cancel()

    monkeypatch.setattr(RunManager, "launch", launch_and_cancel)
    group = us.SequentialAgent("s", [us.Agent("a", model=FunctionModel(gate.then(says("late"))))])
    handle = group.submit("go", system=system)
    handles.put(handle)
    events = list(handle.events(inner=True))
    gate.open()

    assert told(events, "s", "a") == ["TurnStarted"]
    assert told(events, "s") == ["ChildStarted", "ChildFinished", "RunFailed"]


def waits_in_mid_text(gate: Gate) -> us.Agent:
    """Make an agent that has shown half its text when it comes to the gate."""

    def turn(_: us.ModelRequest) -> Iterator[us.Piece]:
        yield us.TextPiece("half a ")
        gate()
        yield us.TextPiece("text")
        yield us.TurnEnd()

    return us.Agent("slow", model=StreamedScript([turn]))


def quick(gate: Gate, end: Callable[[], us.ModelTurn]) -> us.Agent:
    """Make an agent that ends when the other one has shown half its text."""

    def answer(_: us.ModelRequest) -> us.ModelTurn:
        assert gate.entered.wait(WAIT)
        return end()

    return us.Agent("quick", model=FunctionModel(answer))


def fail() -> us.ModelTurn:
    raise us.ProviderError("no")


WAYS: dict[str, Callable[[Gate, us.Agent], us.Runner[object]]] = {
    "first": lambda gate, slow: us.ParallelAgent("g", [quick(gate, lambda: says("me")), slow], merge="first"),
    "inside": lambda gate, slow: us.ParallelAgent(
        "g", [quick(gate, lambda: says("me")), us.SequentialAgent("s", [slow])], merge="first"
    ),
    "failure": lambda gate, slow: us.ParallelAgent("g", [quick(gate, fail), slow]),
    "callback": lambda gate, slow: us.ParallelAgent("g", [quick(gate, fail), slow], callbacks=[us.LoggingCallback()]),
    "deadline": lambda _, slow: us.SequentialAgent("g", [slow]),
    "cancel": lambda _, slow: us.SequentialAgent("g", [slow]),
    "workflow": lambda _, slow: us.Workflow("g", [us.Task("only", slow)]),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_child_that_began_ends_and_takes_back_the_text_that_it_showed(way: str, system: us.ActorSystem) -> None:
    gate = Gate()
    group = WAYS[way](gate, waits_in_mid_text(gate))
    handle = group.submit("go", system=system, timeout=0.5 if way == "deadline" else None)
    live: list[us.Event] = []
    for event in handle.events(inner=True, timeout=WAIT):
        live.append(event)
        if isinstance(event, us.TextDelta) and event.path[-1] == "slow" and way in ("cancel", "workflow"):
            handle.cancel()
    gate.open()

    late = list(handle.events(inner=True))

    for path in {event.path for event in live}:
        assert told(live, *path) == told(late, *path)
    begun = [event.child_run_id for event in live if isinstance(event, us.ChildStarted)]
    ended = [event.child_run_id for event in live if isinstance(event, us.ChildFinished)]
    assert sorted(begun) == sorted(ended)
    (at,) = place(live, lambda event: isinstance(event, us.ChildFinished) and event.runner_id == "slow")
    finished, dropped = live[at], [event for event in live if event.path[-1] == "slow"][-1]
    assert isinstance(finished, us.ChildFinished)
    assert isinstance(finished.error, (us.RunCancelled, us.RunTimedOut))
    assert isinstance(dropped, us.TurnDropped)
    assert (dropped.path[-1], dropped.text) == ("slow", "half a ")
    assert numbers(handle.events()) == list(range(len(numbers(handle.events()))))
    assert open_parts(live) == {}


def open_parts(events: list[us.Event]) -> dict[str, list[str]]:
    """Return the subagents of AG-UI that have no end, and the texts in them that were open at their end."""
    encoder = us.AguiEncoder(thread_id="t", run_id="r", inner=True)
    inside: dict[str, list[str]] = {}
    for told in [told for event in events for told in encoder.encode(event)]:
        kind, id = str(told["type"]), str(told.get("subagentRunId", ""))
        if kind == "SUBAGENT_STARTED":
            inside[id] = []
        elif kind == "TEXT_MESSAGE_START" and id:
            inside[id].append(str(told["messageId"]))
        elif kind == "TEXT_MESSAGE_END" and id:
            inside[id].remove(str(told["messageId"]))
        elif kind in ("SUBAGENT_FINISHED", "SUBAGENT_ERROR") and not inside[id]:
            del inside[id]
    return inside


def test_who_stops_reading_is_told_no_more(system: us.ActorSystem) -> None:
    handle = nested().submit("go", system=system)
    events = handle.events(inner=True)
    next(events)
    handle.result(WAIT)

    assert isinstance(events, Iterator)
    close = getattr(events, "close")  # noqa: B009 (an iterator need not have it)
    close()

    assert list(events) == []
    assert isinstance(list(handle.events(inner=True))[-1], us.RunFinished)


# --- groups that are wide


class Key(str):
    """A run's id that counts how often one is compared with another."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Key.compared += 1
        return str.__eq__(self, other)


def wide(width: int, *, ended: bool) -> RunLog:
    """Return the log of a group whose children all began, and then ended one by one or were left when it did."""
    log = RunLog("group-1", "group")
    began = [ChildBegan(n, "child", Key(n), "", RunLog(f"run-{n}", "child")) for n in range(width)]
    for child in began:
        log.note(child)
    for child in began:
        child.log.note(1)
        if ended:
            log.note(ChildEnded(child, us.RunCancelled("over")))
    log.end(us.RunCancelled("over"))
    return log


def compared(width: int, *, ended: bool) -> int:
    """Return how often ids are compared while such a log is told, and check that it is told as it happened."""
    Key.compared = 0

    events = list(events_of(wide(width, ended=ended), inner=True))

    numbers = [event.run_id for event in events if isinstance(event, us.TurnStarted)]
    assert numbers == [f"run-{n}" for n in range(width)]
    assert len(events) == width * (3 if ended else 2) + 1
    return Key.compared


@pytest.mark.parametrize("ended", [True, False])
def test_a_child_of_a_wide_group_is_not_looked_for_among_all_others(ended: bool) -> None:
    assert compared(1_000, ended=ended) <= 10 * compared(100, ended=ended) + 100


def test_what_is_left_of_runs_inside_is_told_in_the_order_in_which_they_began() -> None:
    first, other, again = [RunLog(f"run-{n}", "child") for n in range(3)]
    log = RunLog("outer-1", "outer")
    for id in ("call-1", "call-2"):
        log.note(us.ToolCall(id=id, name="child", arguments={}))
    for fact in (Delegated("call-1", first), Delegated("call-2", other), Delegated("call-1", again), 1):
        log.note(fact)
    events = iter(events_of(log, inner=True))
    before = [next(events) for _ in range(3)]  # to the turn: the inner logs are read from here on

    for inner in (again, other, first):
        inner.note(1)
    log.end(us.RunCancelled("over"))

    assert [type(event) for event in before] == [us.ToolStarted, us.ToolStarted, us.TurnStarted]
    assert [event.run_id for event in events] == ["run-0", "run-1", "run-2", "outer-1"]
