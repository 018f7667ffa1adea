"""The events of a run: gapless, from the first on, with one terminal event that equals the outcome."""

from __future__ import annotations

import _thread
import gc
import sys
import threading
import weakref

import pytest

import understudy as us
from tests.support.events import numbers
from tests.support.scripts import WAIT, eventually, scripted
from tests.support.tools import look
from understudy.actors.run_view import event_reader
from understudy.actors.run_view.event_count import next_seq
from understudy.actors.run_view.log import Conflict, Delegated, Diverged, Finished, RunLog, RunLogEntry
from understudy.actors.threads.promise import taken
from understudy.testing import FunctionModel, calls, says


def names(events: list[us.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_the_events_of_a_run_tell_its_story_in_order() -> None:
    handle = scripted(calls("look", word="x"), says("ok"), tools=[look]).submit("go")

    events = list(handle.events())

    assert names(events) == [
        "TurnStarted",
        "TurnFinished",
        "ToolStarted",
        "ToolFinished",
        "TurnStarted",
        "TextDelta",
        "TurnFinished",
        "RunFinished",
    ]
    assert numbers(events) == list(range(7))
    assert [event.seq for event in events][4:6] == [4, 4]  # a delta has the number of the event before it
    assert {event.run_id for event in events} == {handle.run_id}
    last = events[-1]
    assert isinstance(last, us.RunFinished) and last.outcome == handle.result()
    assert list(handle.events()) == events  # a second time, and late


def test_an_event_arrives_while_the_run_goes_on() -> None:
    gate = threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 2:
            assert gate.wait(WAIT)
            return says("ok")
        return calls("look", word="x")

    events = us.Agent("clerk", model=FunctionModel(answer), tools=[look]).submit("go").events()
    for event in events:
        if isinstance(event, us.ToolFinished):
            assert event.result.content == "saw x"
            gate.set()

    assert gate.is_set()


def test_a_run_that_fails_ends_with_run_failed_and_the_iterator_does_not_raise() -> None:
    error = us.RateLimited("no")
    events = list(scripted(error).submit("go").events())

    last = events[-1]
    assert isinstance(last, us.RunFailed) and last.error is error
    assert 0.0 < last.duration < WAIT
    assert sum(isinstance(event, us.RunFailed | us.RunFinished) for event in events) == 1


def test_a_call_that_never_ran_is_told_too() -> None:
    events = list(scripted(calls("nope"), says("ok"), tools=[look]).submit("go").events())

    told = [event for event in events if isinstance(event, us.ToolStarted | us.ToolFinished)]
    assert names(list(told)) == ["ToolStarted", "ToolFinished"]
    assert isinstance(told[1], us.ToolFinished) and told[1].result.error_kind == "unknown_tool"


def test_each_call_of_a_turn_is_told_once_also_when_it_times_out() -> None:
    gate = threading.Event()

    @us.tool(timeout=0.05)
    def hang() -> str:
        gate.wait(WAIT)
        return "late"

    agent = scripted(calls("hang") + calls("look", word="x"), calls("hang"), says("ok"), tools=[hang, look])
    events = list(agent.submit("go").events())
    gate.set()

    finished = [event.result.error_kind for event in events if isinstance(event, us.ToolFinished)]
    assert sorted(finished) == ["", "timed_out", "timed_out"]


def test_each_call_of_a_turn_is_told_before_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gone_on, note = threading.Event(), RunLog.note

    def note_late(log: RunLog, fact: RunLogEntry, *, with_line: bool = True) -> None:
        match fact:
            case 2 | BaseException():
                gone_on.set()
            case (us.ToolCall(), us.ToolResult()):
                gone_on.wait(0.2)  # an executor's thread that is slow to tell
            case _:
                pass
        note(log, fact, with_line=with_line)

    monkeypatch.setattr(RunLog, "note", note_late)
    handle = scripted(calls("look", word="x") + calls("look", word="y"), says("ok"), tools=[look]).submit("go")
    events = names(list(handle.events()))

    assert events.count("ToolFinished") == 2
    assert events[6:8] == ["TurnStarted", "TextDelta"]


def test_a_pause_ends_the_events_with_its_outcome() -> None:
    events = list(scripted(says("__ask_user__: who?")).submit("go").events())

    last = events[-1]
    assert isinstance(last, us.RunFinished) and isinstance(last.outcome, us.NeedsInput)


def test_a_fact_is_counted_as_many_events_as_a_listener_is_told_of_it() -> None:
    call, log = us.ToolCall("c1", "look"), RunLog("run-1", "a")
    facts: list[RunLogEntry] = [
        1,
        (1, says("hm") + calls("look")),
        call,
        Delegated("c1", RunLog("run-2", "b", "run-1")),
    ]
    facts += [Finished(call, us.ToolResult("c1", "seen")), 2, (2, calls("look")), Conflict(("k",)), Diverged(1)]
    for fact in facts:
        log.note(fact)
    log.end(ValueError("over"))

    told = [event for event in event_reader.events_of(log) if not isinstance(event, us.TextDelta)]

    assert len(told) == next_seq(log, is_inner=False) == len(facts)  # with the ending, and without Delegated
    assert next_seq(log, is_inner=True) == len(facts) - 1


def test_an_iterator_that_a_garbage_collection_closes_while_a_fact_is_noted_holds_nothing_up() -> None:
    log = RunLog("run-1", "a")
    dropped = event_reader.events_of(log, inner=True)
    log.note(1)
    next(dropped)

    class Collector:
        """Has a collection come at the worst moment: under the log's lock."""

        def wake(self) -> None:
            gc.collect()

    circle: list[object] = [dropped]
    circle.append(circle)  # so that only a collection finds it
    left = weakref.ref(dropped)
    log.listen(Collector())
    del dropped, circle
    noting = threading.Thread(target=log.note, args=(2,), daemon=True)
    noting.start()
    noting.join(WAIT)

    assert not noting.is_alive()
    assert left() is None


def test_an_interrupt_that_wakes_nobody_is_seen_by_who_waits_for_events() -> None:
    asked, gate = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked.set()
        gate.wait(WAIT)
        return says("late")

    def waits() -> bool:
        return sys._current_frames()[main].f_code is taken.__code__  # pyright: ignore[reportPrivateUsage] (documented all the same)

    def interrupt() -> None:
        assert asked.wait(WAIT)
        eventually(waits, "it waits for the next event")
        _thread.interrupt_main()  # as of a Ctrl-C right before the wait: it is noted, and interrupts no system call

    handle = us.Agent("a", model=FunctionModel(answer)).submit("go")
    interrupting = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            for event in handle.events():
                if isinstance(event, us.TurnStarted):
                    interrupting.start()
        assert handle.running()
    finally:
        gate.set()
        interrupting.join(WAIT)
    handle.result(WAIT)


def test_events_tell_how_long_turns_children_and_the_run_took() -> None:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        scope = us.current_scope()
        assert scope is not None
        scope.sleep(0.05)
        return says("ok")

    line = us.SequentialAgent("line", [us.Agent("slow", model=FunctionModel(answer))])
    handle = line.submit("go")

    live, late = list(handle.events(inner=True)), list(handle.events(inner=True))

    (turn,) = [event.duration for event in live if isinstance(event, us.TurnFinished)]
    (child,) = [event.duration for event in live if isinstance(event, us.ChildFinished)]
    (run,) = [event.duration for event in live if isinstance(event, us.RunFinished)]
    assert 0.05 <= turn <= child <= run < WAIT
    assert [getattr(event, "duration", None) for event in late] == [getattr(event, "duration", None) for event in live]


def test_events_name_the_run_that_theirs_was_begun_in() -> None:
    seen: list[tuple[str, str | None]] = []

    def prompt(context: us.RunContext) -> str:
        seen.append((context.run_id, context.parent_run_id))
        return "Be brief."

    clerk = us.Agent("clerk", model=FunctionModel(lambda _: says("ok")), system_prompt=prompt)

    @us.tool
    def ask_clerk() -> str:
        """Ask."""
        inner = clerk.submit("go")
        inner.result(WAIT)
        own.extend(inner.events())
        return ""

    own: list[us.Event] = []
    lead = scripted(calls("ask_clerk"), says("ok"), tools=[ask_clerk])
    handle = us.SequentialAgent("line", [lead]).submit("go")
    events = list(handle.events(inner=True))

    lead_run = next(event.run_id for event in events if event.path == ("line", "clerk"))
    assert {event.parent_run_id for event in events if event.run_id == handle.run_id} == {None}
    assert {event.parent_run_id for event in events if event.run_id == lead_run} == {handle.run_id}
    assert {event.parent_run_id for event in own} == {lead_run}
    assert seen == [(own[0].run_id, lead_run)]
