"""Runs of sequences and parallel groups: how they go, fail, are cancelled, share a session, and survive failures."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import understudy as us
from tests.support.scripts import WAIT, busy_threads, echo, eventually, finished
from understudy.actors.runs.group_record import GroupRunRecord
from understudy.actors.system.actor_system import runs_of
from understudy.actors.threads.pool import ThreadPool
from understudy.actors.waiting.graph import graph
from understudy.orchestration.group.children import ChildResult, merged
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.messages import user_message


def failing(id: str, error: Exception) -> us.Agent:
    def fail(request: us.ModelRequest) -> us.ModelTurn:
        raise error

    return us.Agent(id, model=FunctionModel(fail))


class Held:
    """An agent whose model answers when it is let go."""

    def __init__(self, id: str) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()
        self.agent = us.Agent(id, model=FunctionModel(self._answer))

    def _answer(self, request: us.ModelRequest) -> us.ModelTurn:
        self.asked.set()
        scope = us.current_scope()
        assert scope is not None
        forget = scope.on_cancel(self.go.set)
        assert self.go.wait(3 * WAIT)  # longer than anybody waits for it to be cancelled
        forget()
        scope.check()
        return says(self.agent.id)


def writer(id: str, **values: str) -> us.Agent:
    """Make an agent whose tool writes to the session."""

    @us.tool
    def write(ctx: us.ToolContext) -> str:
        """Write."""
        ctx.session.update(values)
        return "written"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return calls("write") if len(request.messages) == 1 else says(id)

    return us.Agent(id, model=FunctionModel(answer), tools=[write])


def reader(id: str, key: str) -> us.Agent:
    """Make an agent that answers with a value of the session."""

    def prompt(context: us.RunContext) -> str:
        return str(context.session.get(key))

    return us.Agent(id, model=FunctionModel(lambda request: says(request.system)), system_prompt=prompt)


# --- sequences


def test_a_sequence_hands_on_what_the_step_before_said(system: us.ActorSystem) -> None:
    a = echo("a")
    group = us.SequentialAgent("s", [a, echo("b"), a], pass_output=True)

    outcome = finished(group.run("x", system=system))

    assert (outcome.text, outcome.agent_id, outcome.completion_reason) == ("a(b(a(x)))", "s", "all 3 steps completed")


def test_a_sequence_shares_its_session_and_the_caller_gets_the_changes(system: us.ActorSystem) -> None:
    session = us.SessionState({"old": "1"})
    steps = [writer("w", colour="red"), reader("r", "colour")]

    outcome = finished(us.SequentialAgent("s", steps).run("x", session=session, system=system))

    assert outcome.text == "red"
    assert dict(session) == dict(outcome.session) == {"old": "1", "colour": "red"}


def test_a_sequence_ends_with_the_error_of_its_step_itself(system: us.ActorSystem) -> None:
    error, after = us.RateLimited("slow down", retry_after=7.0), ScriptedModel([says("never")])
    group = us.SequentialAgent("s", [failing("bad", error), us.Agent("after", model=after)])

    with pytest.raises(us.RateLimited) as caught:
        group.run("x", system=system)

    assert caught.value is error
    assert after.requests == []


def test_a_step_that_stops_short_leaves_the_sequence_incomplete(system: us.ActorSystem) -> None:
    short = us.Agent("short", model=ScriptedModel([says("hm")]), criteria=[us.KeywordCriteria("DONE")], max_continues=0)

    outcome = us.SequentialAgent("s", [short, echo("b")]).run("x", system=system)

    assert isinstance(outcome, us.Incomplete)
    assert (outcome.agent_id, outcome.last_text) == ("s", "hm")
    assert "agent 'short' stopped" in outcome.completion_reason


# --- parallel groups


def test_no_more_children_run_at_once_than_max_parallel_allows(system: us.ActorSystem) -> None:
    lock, running, most = threading.Lock(), 0, 0
    three = threading.Barrier(3, timeout=WAIT)

    def count(request: us.ModelRequest) -> us.ModelTurn:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        three.wait()
        with lock:
            running -= 1
        return says("ok")

    agent = us.Agent("a", model=FunctionModel(count))

    us.ParallelAgent("p", [agent] * 12, max_parallel=3).run("x", system=system)

    assert most == 3


def test_the_first_failure_ends_a_parallel_group_and_the_others_are_cancelled(system: us.ActorSystem) -> None:
    held, error = Held("held"), us.RateLimited("slow down", retry_after=7.0)
    group = us.ParallelAgent("p", [held.agent, failing("bad", error)])

    with pytest.raises(us.RateLimited) as caught:
        group.run("x", system=system)

    assert caught.value is error
    eventually(lambda: system.in_flight == 0 and system.hung == 0, "the other child is cancelled")


def test_if_all_fail_that_are_collected_the_group_fails_of_all_of_it(system: us.ActorSystem) -> None:
    errors = [us.RateLimited("slow down", retry_after=7.0), us.BadReply("what?")]
    group = us.ParallelAgent("p", [failing(str(n), error) for n, error in enumerate(errors)], on_error="collect")

    with pytest.raises(us.SeveralErrors, match="every child of 'p' failed") as caught:
        us.SequentialAgent("s", [group]).run("x", system=system)

    assert set(caught.value.exceptions) == set(errors)
    assert caught.value.path == ("s", "p")
    assert {error.path for error in errors} == {("s", "p", "0"), ("s", "p", "1")}
    assert caught.value.run_id


def test_the_first_to_succeed_is_the_answer_and_the_others_are_cancelled(system: us.ActorSystem) -> None:
    held, bad = Held("held"), failing("bad", us.BadReply("what?"))

    handle = us.ParallelAgent("p", [bad, held.agent, echo("b")], merge="first").submit("x", system=system)
    outcome = handle.result(WAIT)

    assert outcome.text == "b(x)"
    eventually(lambda: system.in_flight == 0 and system.hung == 0, "the loser is cancelled")


# --- the session of a parallel group


@pytest.mark.parametrize("runner", ["sequence", "workflow", "sequence in a sequence"])
def test_what_a_step_changed_of_the_session_before_it_failed_is_not_lost(runner: str, system: us.ActorSystem) -> None:
    def note(ctx: us.ToolContext[object]) -> str:
        ctx.session["seen"] = "yes"
        return "noted"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.messages[-1].tool_results:
            raise us.AuthenticationError("who are you?", provider="fake")
        return calls("note")

    clerk = us.Agent("clerk", model=FunctionModel(answer), tools=[note])
    runners: dict[str, us.Runner[object]] = {
        "sequence": us.SequentialAgent("s", [clerk]),
        "workflow": us.Workflow("w", [us.Task("t", clerk)]),
        "sequence in a sequence": us.SequentialAgent("outer", [us.SequentialAgent("s", [clerk])]),
    }
    session = us.SessionState()

    handle = runners[runner].submit("go", session=session, system=system)
    eventually(handle.done, "it is over")

    assert session["seen"] == "yes"


def test_parallel_children_work_on_copies_and_what_they_changed_is_laid_over_the_session(
    system: us.ActorSystem,
) -> None:
    session = us.SessionState({"x": "0"})
    children = [writer("a", x="1"), writer("b", y="2"), reader("r", "x")]

    outcome = finished(us.ParallelAgent("p", children, max_parallel=1).run("go", session=session, system=system))

    assert json.loads(outcome.combined_text or "") == ["a", "b", "0"]
    assert dict(session) == {"x": "1", "y": "2"}


def test_keys_that_children_left_differently_are_told_and_the_last_child_counts(system: us.ActorSystem) -> None:
    session = us.SessionState()
    children = [writer("a", x="1", same="s"), writer("b", x="2", same="s")]

    handle = us.ParallelAgent("p", children).submit("go", session=session, system=system)

    assert [event.keys for event in handle.events() if isinstance(event, us.SessionConflict)] == [("x",)]
    assert session["x"] == "2"


@pytest.mark.parametrize(
    ("one", "other"), [(None, "removed"), (1, True), (1, 1.0)], ids=["none-removed", "1-true", "1-1.0"]
)
def test_values_that_python_holds_to_be_equal_and_json_does_not_are_left_differently(
    one: us.JsonValue, other: us.JsonValue, system: us.ActorSystem
) -> None:
    def child(id: str, value: us.JsonValue) -> us.Agent:
        def write(ctx: us.ToolContext) -> str:
            """Write."""
            if value == "removed":
                del ctx.session["x"]
            else:
                ctx.session["x"] = value
            return "written"

        return us.Agent(id, model=ScriptedModel([calls("write"), says(id)]), tools=[us.tool(write)])

    handle = us.ParallelAgent("p", [child("a", one), child("b", other)]).submit("go", session={"x": 0}, system=system)

    assert [event.keys for event in handle.events() if isinstance(event, us.SessionConflict)] == [("x",)]


def test_of_first_only_what_the_winner_changed_counts(system: us.ActorSystem) -> None:
    session = us.SessionState()
    bad = us.SequentialAgent("bad", [writer("w", x="lost"), failing("f", us.BadReply("no"))])

    us.ParallelAgent("p", [bad, writer("b", y="2")], merge="first").run("go", session=session, system=system)

    assert dict(session) == {"y": "2"}


# --- nesting


def test_a_group_is_a_sub_agent(system: us.ActorSystem) -> None:
    panel = us.ParallelAgent("panel", [echo("a"), writer("w", seen="yes")])
    lead = us.Agent("lead", model=ScriptedModel([calls("panel", input="tides"), says("done")]), sub_agents=[panel])
    session = us.SessionState()

    outcome = finished(lead.run("go", session=session, system=system))

    assert outcome.messages[2].tool_results[0].content == "w"
    assert dict(session) == {"seen": "yes"}


def test_a_group_that_is_reached_through_itself_is_refused_with_the_way(system: us.ActorSystem) -> None:
    def again() -> str:
        """Run the group again."""
        return group.run("once more").text

    agent = us.Agent("a", model=ScriptedModel([calls("again"), says("no")]), tools=[again], on_tool_error="raise")
    group = us.SequentialAgent("s", [us.ParallelAgent("p", [agent])])

    with pytest.raises(us.ToolError) as caught:
        group.run("x", system=system)

    assert isinstance(caught.value.__cause__, us.CircularAgentCall)
    assert caught.value.__cause__.path == ("s", "p", "a", "s")


def test_what_a_child_may_not_run_ends_the_group(system: us.ActorSystem) -> None:
    panel = us.SequentialAgent("panel", [echo("secret")])
    lead = us.Agent(
        "lead",
        model=ScriptedModel([calls("panel", input="x"), says("refused")]),
        sub_agents=[us.SubAgent(panel, deny=["secret"])],
    )

    outcome = finished(lead.run("go", system=system))

    assert "'secret' may not run here" in str(outcome.messages[2].tool_results[0].content)


def test_a_child_gets_the_deps_and_the_user_of_the_run(system: us.ActorSystem) -> None:
    seen: list[tuple[object, str | None, str | None]] = []

    @us.tool
    def look(ctx: us.ToolContext[str]) -> str:
        """Look."""
        seen.append((ctx.deps, ctx.user_id, ctx.conversation_id))
        return "ok"

    agent = us.Agent("a", model=ScriptedModel([calls("look"), says("ok")]), tools=[look])

    us.SequentialAgent("s", [agent]).run("x", deps="deps", user_id="ada", conversation_id="c-1", system=system)

    assert seen == [("deps", "ada", "c-1")]


def test_the_usage_of_a_group_is_the_sum_of_its_childrens_also_of_those_that_failed(system: us.ActorSystem) -> None:
    used = us.Usage(input_tokens=10, output_tokens=5)
    good = us.Agent("good", model=ScriptedModel([us.ModelTurn(says("ok").parts, usage=used)]))
    bad = us.Agent(
        "bad", model=ScriptedModel([us.ModelTurn(calls("boom").parts, usage=used), us.BadReply("no")]), tools=[boom]
    )

    outcome = us.SequentialAgent("s", [us.ParallelAgent("p", [good, bad], on_error="collect")]).run("x", system=system)

    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (20, 10)


def boom() -> str:
    """Fail."""
    return "boom"


# --- ends from outside


def test_a_group_that_is_cancelled_cancels_its_children_at_once(system: us.ActorSystem) -> None:
    helds = [Held(id) for id in "ab"]
    group = us.SequentialAgent("s", [us.ParallelAgent("p", [held.agent for held in helds])])
    handle = group.submit("x", system=system)
    assert all(held.asked.wait(WAIT) for held in helds)

    assert handle.cancel()

    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    eventually(lambda: system.in_flight == 0 and system.hung == 0, "all inside of it has ended")


def test_the_deadline_of_a_group_holds_for_all_inside_of_it(system: us.ActorSystem) -> None:
    held = Held("a")
    group = us.ParallelAgent("p", [held.agent], on_error="collect")

    with pytest.raises(us.RunTimedOut, match="'p'"):
        group.run("x", system=system, timeout=0.05)

    eventually(lambda: system.in_flight == 0 and system.hung == 0, "all inside of it has ended")


def test_a_group_takes_no_history(system: us.ActorSystem) -> None:
    with pytest.raises(ValueError, match="history"):
        us.SequentialAgent("s", [echo("a")]).run("x", history=[user_message("before")], system=system)


# --- what is seen of it


def test_the_events_of_a_group_tell_of_its_children(system: us.ActorSystem) -> None:
    bad = failing("bad", us.BadReply("no"))
    handle = us.ParallelAgent("p", [bad, echo("b")], on_error="collect", max_parallel=1).submit("x", system=system)

    events = list(handle.events())

    assert [type(event).__name__ for event in events] == [
        "ChildStarted",
        "ChildFinished",
        "ChildStarted",
        "ChildFinished",
        "RunFinished",
    ]
    first, second = events[1], events[3]
    assert isinstance(first, us.ChildFinished) and isinstance(second, us.ChildFinished)
    assert (first.position, first.runner_id, type(first.error), first.outcome) == (0, "bad", us.BadReply, None)
    assert (second.position, second.runner_id, second.error) == (1, "b", None)
    assert second.outcome is not None and second.outcome.text == "b(x)"
    assert [event.seq for event in events] == [0, 1, 2, 3, 4]


def test_the_status_says_which_children_run(system: us.ActorSystem) -> None:
    held = Held("a")
    handle = us.SequentialAgent("s", [held.agent]).submit("x", system=system)
    assert held.asked.wait(WAIT)

    status = handle.status()
    held.go.set()

    assert (status.agent_id, status.phase, status.doing) == ("s", "running", "running a")
    assert handle.result(WAIT).text == "a"


def test_a_spawned_group_is_found_by_id_with_all_inside_of_it(system: us.ActorSystem) -> None:
    a, b = echo("a"), echo("b")
    ref = system.spawn(us.SequentialAgent("s", [us.ParallelAgent("p", [a, b]), a]))

    assert ref.run("x").text == "a(x)"
    assert system.ref("p").run("x").combined_text == '["a(x)", "b(x)"]'
    assert system.ref("b").run("x").text == "b(x)"


def test_an_override_holds_inside_of_groups(system: us.ActorSystem) -> None:
    a = echo("a")

    with a.override(model=ScriptedModel([says("other")])):
        assert us.SequentialAgent("s", [a]).run("x", system=system).text == "other"


# --- threads


def test_groups_that_wait_hold_no_thread(system: us.ActorSystem) -> None:
    held = Held("held")
    depth, nested = 20, us.SequentialAgent("s0", [held.agent])
    for level in range(1, depth):
        nested = us.SequentialAgent(f"s{level}", [nested])
    before = busy_threads()
    handle = nested.submit("x", system=system)
    assert held.asked.wait(WAIT)

    assert system.in_flight == depth + 1
    eventually(lambda: busy_threads() <= before + 1, "nobody but the model holds a thread")
    held.go.set()

    assert handle.result(WAIT).text == "held"


def test_a_thousand_children_run_at_once(system: us.ActorSystem) -> None:
    agent = echo("a")

    outcome = us.ParallelAgent("p", [us.SequentialAgent("s", [agent])] * 500 + [agent] * 500).run("x", system=system)

    assert json.loads(outcome.combined_text or "") == ["a(x)"] * 1000


def test_nothing_is_left_of_a_group_that_is_over(system: us.ActorSystem) -> None:
    us.SequentialAgent("s", [us.ParallelAgent("p", [echo("a"), echo("b")], merge="first")]).run("x", system=system)
    eventually(lambda: system.in_flight == 0, "all is over")

    def records() -> int:
        gc.collect()
        found = [thing for thing in gc.get_objects() if isinstance(thing, GroupRunRecord)]
        return sum(record.host is runs_of(system) for record in found)  # other systems keep runs that failed

    assert len(graph) == 0
    eventually(lambda: records() == 0, "no record is kept")


def test_the_actor_of_a_sequence_takes_no_other_thread_than_the_one_that_it_began_on(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted, submit = list[object](), ThreadPool.submit

    def noting(threads: ThreadPool, work: Any) -> None:
        submitted.append(work)
        submit(threads, work)

    monkeypatch.setattr(ThreadPool, "submit", noting)

    outcome = us.SequentialAgent("s", [echo("a"), echo("b"), echo("c")]).run("x", system=system)

    assert outcome.text == "c(x)"
    assert len(submitted) == 1


def test_a_group_that_is_over_leaves_nothing_to_the_garbage_collector(system: us.ActorSystem) -> None:
    task = us.Task("t", echo("t"), when=lambda tasks: True, until=lambda text: True)
    groups = [
        us.SequentialAgent("s", [us.ParallelAgent("p", [echo("a"), echo("b")]), echo("c")]),
        us.Workflow("w", [task]),
    ]
    for each in groups:
        each.run("x", system=system)
    gc.collect()
    gc.disable()
    try:
        for each in groups * 10:
            each.run("x", system=system)
        eventually(lambda: system.in_flight == 0, "all is over")
        found = gc.collect()
    finally:
        gc.enable()

    assert found < len(groups) * 10  # not one object a run


# --- crashes


def writers(failures: int, count: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> us.ParallelAgent:
    """Make a group that crashes so often when both children are done."""
    left = [MemoryError("the group hit a fault") for _ in range(failures)]

    def failing_merge(results: Iterable[ChildResult]) -> tuple[dict[str, us.JsonValue], frozenset[str], frozenset[str]]:
        if left:
            raise left.pop()
        return merged(results)

    def child(id: str, wrote: str) -> us.Agent:
        def write(ctx: us.ToolContext) -> str:
            """Write."""
            count()
            ctx.session["x"] = wrote
            return "written"

        model = FunctionModel(lambda request: calls("write") if len(request.messages) == 1 else says(id))
        return us.Agent(id, model=model, tools=[us.tool(write)])

    monkeypatch.setattr("understudy.orchestration.group.group_run.merged", failing_merge)
    return us.ParallelAgent("p", [child("a", "1"), child("b", "2")])


def test_a_group_goes_on_after_it_crashed_and_no_child_runs_twice(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, crashes = us.SessionState(), list[us.RunCrashed]()
    wrote = list[None]()
    with system.subscribe(crashes.append, us.RunCrashed):
        group = writers(2, lambda: wrote.append(None), monkeypatch)
        outcome = finished(group.run("x", session=session, system=system, timeout=WAIT))
        eventually(lambda: len(crashes) == 2, "both failures were told")

    assert outcome.combined_text == '["a", "b"]'
    assert dict(session) == {"x": "2"}
    assert len(wrote) == 2
    assert {type(crash.error) for crash in crashes} == {MemoryError}


def test_a_group_that_keeps_crashing_is_poison(system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(us.AgentCrashed) as caught:
        writers(99, lambda: None, monkeypatch).run("x", system=system, timeout=WAIT)

    assert [type(cause) for cause in caught.value.causes] == [MemoryError] * 3


def test_a_crash_of_a_child_is_the_childs_own_affair(system: us.ActorSystem) -> None:
    failures = iter([ZeroDivisionError("once")])

    def prompt(context: us.RunContext) -> str:
        for failure in failures:
            raise failure
        return "prompt"

    agent = us.Agent("a", model=FunctionModel(lambda request: says(request.system)), system_prompt=prompt)

    assert us.SequentialAgent("s", [agent]).run("x", system=system).text == "prompt"


def test_a_child_that_cannot_begin_fails_the_group(system: us.ActorSystem) -> None:
    workflow = us.Workflow("w", [us.Task("t", echo("a"), prompt="${topic}")])

    with pytest.raises(ValueError, match="topic"):
        us.SequentialAgent("s", [workflow]).run("x", system=system)


def test_two_children_that_succeed_in_one_moment_are_one_first_and_one_that_nobody_asks(system: us.ActorSystem) -> None:
    for _ in range(20):
        group = us.ParallelAgent("p", [echo("a"), echo("b"), echo("c")], merge="first")
        assert finished(group.run("x", system=system)).text in {"a(x)", "b(x)", "c(x)"}


def test_a_child_that_was_cut_off_has_what_it_spent_and_said(system: us.ActorSystem) -> None:
    began, lets_go = threading.Event(), threading.Event()

    def hold() -> str:
        began.set()
        lets_go.wait(WAIT)
        return "late"

    first = us.ModelTurn([us.ToolCall("c0", "hold")], usage=us.Usage(1, 100))
    loser = us.Agent("loser", model=ScriptedModel([first, says("late")]), tools=[hold])

    def win(_: us.ModelRequest) -> us.ModelTurn:
        began.wait(WAIT)
        return says("won")

    winner = us.Agent("winner", model=FunctionModel(win))
    outcome = finished(us.ParallelAgent("race", [loser, winner], merge="first").run("go", system=system))
    lets_go.set()

    cut = outcome.children[0]
    assert isinstance(cut, us.RunCancelled)
    assert cut.usage == us.Usage(1, 100)
    assert [each.role for each in cut.messages[:2]] == ["user", "assistant"]
    assert outcome.usage.total_tokens == 101
