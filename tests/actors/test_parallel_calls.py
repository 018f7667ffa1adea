"""How many calls of one turn run at once: as many as the agent says, and the others wait for a place without a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, needs_approval, results_of
from understudy.actors.run_view.log import RunLog, RunLogEntry
from understudy.testing import ScriptedModel, calls, says
from understudy.vocabulary.tools.isolation import Isolation
from understudy.vocabulary.tools.options import OnToolError


def turn_of(name: str, numbers: range) -> us.ModelTurn:
    first, *others = [calls(name, number=number) for number in numbers]
    return sum(others, first)


def clerk(
    turn: us.ModelTurn,
    *tools: us.ToolLike,
    at_once: int | None = 64,
    on_tool_error: OnToolError = "result",
) -> us.Agent[str]:
    model = ScriptedModel([turn, says("ok")])
    return us.Agent("clerk", model=model, tools=tools, max_parallel_calls=at_once, on_tool_error=on_tool_error)


class Counter:
    """Counts who is inside, and how many there were at most."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.order: list[int] = []
        self.inside = 0
        self.most = 0

    def visit(self, number: int, meanwhile: Callable[[], object]) -> str:
        with self.lock:
            self.order.append(number)
            self.inside += 1
            self.most = max(self.most, self.inside)
        try:
            meanwhile()
        finally:
            with self.lock:
                self.inside -= 1
        return f"done {number}"


def nothing() -> None:
    """Take no time."""


@pytest.mark.parametrize("isolation", ["thread", "caller"])
def test_with_one_place_each_call_sees_what_those_before_it_did(isolation: Isolation) -> None:
    counter = Counter()

    @us.tool(isolation=isolation)
    def write(ctx: us.ToolContext[object], number: int) -> str:
        counter.visit(number, nothing)
        seen = ctx.session.get("seen", "")
        ctx.session["seen"] = f"{seen}{number}"
        return f"saw {seen}"

    outcome = clerk(turn_of("write", range(4)), write, at_once=1).run("go")

    assert [result.content for result in results_of(outcome)] == ["saw ", "saw 0", "saw 01", "saw 012"]
    assert (counter.order, counter.most) == ([0, 1, 2, 3], 1)


def test_at_most_as_many_calls_run_at_once_as_the_agent_says() -> None:
    counter, pairs = Counter(), threading.Barrier(2)

    def work(number: int) -> str:
        return counter.visit(number, lambda: pairs.wait(WAIT))

    outcome = clerk(turn_of("work", range(8)), work, at_once=2).run("go")

    assert [result.content for result in results_of(outcome)] == [f"done {number}" for number in range(8)]
    assert counter.most == 2


def test_without_a_limit_all_calls_run_at_once() -> None:
    counter, everybody = Counter(), threading.Barrier(70)

    def work(number: int) -> str:
        return counter.visit(number, lambda: everybody.wait(WAIT))

    clerk(turn_of("work", range(70)), work, at_once=None).run("go")

    assert counter.most == 70


def test_sixty_four_calls_run_at_once_where_nobody_says_how_many() -> None:
    counter, together = Counter(), threading.Barrier(64)

    def work(number: int) -> str:
        return counter.visit(number, lambda: together.wait(WAIT))

    model = ScriptedModel([turn_of("work", range(128)), says("ok")])
    outcome = us.Agent("clerk", model=model, tools=[work]).run("go")

    assert len(results_of(outcome)) == 128
    assert counter.most == 64


def test_calls_that_a_person_approved_wait_for_a_place_too() -> None:
    counter = Counter()

    @us.tool(approval=True)
    def work(ctx: us.ToolContext[object], number: int) -> str:
        before = ctx.session.get("count", 0)
        assert isinstance(before, int)
        ctx.session["count"] = before + 1
        return counter.visit(number, nothing)

    agent = clerk(turn_of("work", range(3)), work, at_once=1)
    paused = needs_approval(agent.run("go"))

    outcome = agent.resume(paused.token, us.Approve())

    assert (counter.order, counter.most) == ([0, 1, 2], 1)
    assert outcome.session["count"] == 3


def test_the_time_of_a_call_begins_with_its_place() -> None:
    left: list[float | None] = []
    began = time.monotonic()

    @us.tool(timeout=None)
    def block(number: int) -> str:
        eventually(lambda: time.monotonic() > began + 0.5, "the time is over")
        return "ok"

    @us.tool(timeout=5)
    def look(ctx: us.ToolContext[object]) -> str:
        left.append(ctx.scope.remaining())
        return "ok"

    clerk(turn_of("block", range(2)) + calls("look"), block, look, at_once=2).run("go")

    assert left[0] is not None
    assert left[0] > 4.6


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_call_that_hangs_gives_its_place_back_when_it_is_given_up(at_once: int) -> None:
    release = threading.Event()

    @us.tool(timeout=0.05)
    def hang(number: int) -> str:
        release.wait(WAIT)
        return "late"

    def work() -> str:
        return "done"

    try:
        outcome = clerk(turn_of("hang", range(2)) + calls("work"), hang, work, at_once=at_once).run("go")
    finally:
        release.set()

    assert [result.error_kind or result.content for result in results_of(outcome)] == ["timed_out", "timed_out", "done"]


def test_a_call_with_a_place_that_began_late_is_given_up_in_its_time() -> None:
    release = threading.Event()

    @us.tool(timeout=None)
    def wait() -> str:
        release.wait(WAIT)
        return "done"

    @us.tool(timeout=0.1)
    def hang(number: int) -> str:
        if number == 2:
            release.wait(WAIT)
        return "done"

    handle = clerk(calls("wait") + turn_of("hang", range(3)), wait, hang, at_once=2).submit("go")
    for event in handle.events():
        if isinstance(event, us.ToolFinished) and event.call.arguments.get("number") == 2:
            release.set()

    assert [result.error_kind for result in results_of(handle.result(WAIT))] == ["", "", "", "timed_out"]


def test_calls_that_wait_for_a_place_never_run_once_the_run_is_cancelled() -> None:
    counter, release = Counter(), threading.Event()

    def work(number: int) -> str:
        return counter.visit(number, lambda: release.wait(WAIT))

    handle = clerk(turn_of("work", range(6)), work, at_once=2).submit("go")
    eventually(lambda: counter.inside == 2, "two calls run")
    handle.cancel()
    release.set()

    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    eventually(lambda: counter.inside == 0, "both came back")
    assert sorted(counter.order) == [0, 1]


def test_calls_that_wait_for_a_place_never_run_once_a_failed_call_ends_the_run() -> None:
    ran: list[int] = []

    def work(number: int) -> str:
        ran.append(number)
        raise LookupError("gone")

    @us.tool(timeout=None)
    def hold(ctx: us.ToolContext[object]) -> str:
        ctx.scope.sleep(WAIT)
        return "done"

    handle = clerk(calls("hold") + turn_of("work", range(3)), hold, work, at_once=2, on_tool_error="raise").submit("go")
    events = list(handle.events())

    assert isinstance(handle.exception(WAIT), us.ToolError)
    assert ran == [0]
    began = [event.call.id for event in events if isinstance(event, us.ToolStarted)]
    ended = [event.call.id for event in events if isinstance(event, us.ToolFinished)]
    assert len(began) == 4
    assert sorted(began) == sorted(ended)


def test_calls_of_the_caller_s_thread_go_on_there_in_call_order() -> None:
    counter, threads = Counter(), set[int]()

    @us.tool(isolation="caller")
    def work(number: int) -> str:
        threads.add(threading.get_ident())
        return counter.visit(number, nothing)

    outcome = clerk(turn_of("work", range(6)), work, at_once=2).run("go")

    assert len(results_of(finished(outcome))) == 6
    assert counter.order == list(range(6))
    assert threads == {threading.get_ident()}


def test_places_and_a_tool_s_own_limit_hold_together() -> None:
    few, many, pairs = Counter(), Counter(), threading.Barrier(2)

    @us.tool(max_parallel=1)
    def narrow(number: int) -> str:
        return few.visit(number, nothing)

    def wide(number: int) -> str:
        return many.visit(number, lambda: pairs.wait(WAIT))

    outcome = clerk(turn_of("narrow", range(5)) + turn_of("wide", range(4)), narrow, wide, at_once=3).run("go")

    assert not any(result.is_error for result in results_of(outcome))
    assert few.most == 1
    assert 2 <= many.most <= 3


def test_a_sub_agent_s_call_has_a_place() -> None:
    counter = Counter()

    def work(number: int) -> str:
        return counter.visit(number, nothing)

    inner = us.Agent(
        "inner", model=us.FunctionModel(lambda request: inner_turn(request)), tools=[work], description="Works."
    )
    turn = calls("inner", input="a") + calls("inner", input="b") + calls("inner", input="c")
    outer = us.Agent("outer", model=ScriptedModel([turn, says("ok")]), sub_agents=[inner], max_parallel_calls=1)

    outcome = outer.run("go")

    assert [result.content for result in results_of(outcome)] == ["ok"] * 3
    assert counter.most == 1


def inner_turn(request: us.ModelRequest) -> us.ModelTurn:
    return calls("work", number=1) if request.turn == 1 else says("ok")


def test_a_call_that_begins_late_is_refused_a_slot_that_waits_for_its_run() -> None:
    taken = threading.Event()
    first: list[us.RunHandle[str]] = []

    def quick(number: int) -> str:
        return str(taken.wait(WAIT))

    @us.tool(max_parallel=1, timeout=None)
    def hold(who: str) -> str:
        if who == "second":
            taken.set()
            return first[0].result().text
        return "held"

    early = clerk(turn_of("quick", range(2)) + calls("hold", who="first"), quick, hold, at_once=2)
    late = us.Agent("late", model=ScriptedModel([calls("hold", who="second"), says("ok")]), tools=[hold])
    first.append(early.submit("go"))
    second = late.submit("go")

    # Of the call in line and the one that has the slot, the last one to wait is refused; the tool raises either error.
    assert "CircularAgentCall" in results_of(second.result(WAIT))[0].content


@pytest.mark.parametrize(("given", "kind"), [(0, ValueError), (-1, ValueError), (True, TypeError), ("2", TypeError)])
def test_how_many_must_be_a_whole_number_from_one_on(given: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="agent 'clerk': max_parallel_calls must be"):
        clerk(says("ok"), at_once=given)


def test_the_limit_is_no_part_of_the_fingerprint() -> None:
    assert clerk(says("ok"), at_once=1).fingerprint() == clerk(says("ok"), at_once=2).fingerprint()


def test_calls_under_way_are_given_up_when_the_next_one_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    note, inside, left = RunLog.note, threading.Event(), threading.Event()

    def interrupted(log: RunLog, fact: RunLogEntry) -> None:
        if isinstance(fact, us.ToolCall) and fact.name == "work":
            raise KeyboardInterrupt  # as it comes between two calls, on a caller's thread
        note(log, fact)

    @us.tool(timeout=None)
    def hold(ctx: us.ToolContext[object]) -> str:
        inside.set()
        try:
            ctx.scope.sleep(WAIT)
        finally:
            left.set()
        return "done"

    def work() -> str:
        return "never"

    monkeypatch.setattr(RunLog, "note", interrupted)
    handle = clerk(calls("hold") + calls("work"), hold, work, at_once=2).submit("go")

    assert handle.exception(WAIT / 2) is not None
    eventually(lambda: left.is_set() or not inside.is_set(), "a call that began is given up")
