"""Callbacks, tapes, failing tools, restarts and forks where they meet runs inside of runs, and stores."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import understudy as us
from tests.hosts.forking import in_child
from tests.support.scripts import WAIT, finished, needs_approval, results_of
from tests.support.stores import DictStore
from tests.support.tools import pay
from understudy.testing import FunctionModel, ScriptedModel, calls, says

Systems = tuple[us.ActorSystem, us.ActorSystem]
TEN = us.Usage(6, 4)


@us.tool(on_error="raise")
def breaks() -> str:
    """Break."""
    raise OSError("no disk")


class Notes(us.AgentCallback):
    """Notes what it is asked, in words."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
        self.seen.append(f"before {call.name}")
        return us.Continue()

    def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> us.CallbackAction:
        self.seen.append(f"after {call.name}")
        return us.Continue()

    def on_error(self, ctx: us.RunContext, error: BaseException) -> us.CallbackAction:
        self.seen.append(f"error {type(error).__name__}")
        return us.Continue()

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
        self.seen.append(f"finish {outcome.status}")
        return us.Continue()


def agent(id: str, *turns: us.ModelTurn | Exception, tools: tuple[us.ToolLike, ...] = ()) -> us.Agent:
    spent = [t if isinstance(t, Exception) else us.ModelTurn(t.parts, TEN, t.finish_reason) for t in turns]
    return us.Agent(id, model=ScriptedModel(spent), tools=tools)


def lead_of(*below: us.Agent, tools: tuple[us.ToolLike, ...] = ()) -> us.Agent:
    """Make an agent that calls all its sub-agents and tools in one turn, and is done then."""
    turn = us.ModelTurn(())
    for each in below:
        turn = turn + calls(each.id, input="go")
    for tool in tools:
        assert isinstance(tool, us.Tool)
        turn = turn + calls(tool.name)
    return agent("lead", turn, says("Done."), tools=tools).replace(sub_agents=below)


# --- callbacks and pauses


def test_each_agent_asks_its_own_callbacks_once_for_each_moment_over_a_pause(systems: Systems) -> None:
    here, there = systems
    above, below = Notes(), Notes()
    child = agent("writer", calls("pay", cents=1), says("ok"), tools=(pay,)).replace(callbacks=[below])
    lead = lead_of(child).replace(callbacks=[above])

    paused = needs_approval(lead.run("go", system=here))
    lead.resume(paused.token, us.Approve(), system=there)

    assert above.seen == ["before writer", "finish needs_approval", "after writer", "finish complete"]
    assert below.seen == [
        "before pay",
        "finish needs_approval",
        "before pay",
        "after pay",
        "finish complete",
    ]


def test_a_guard_is_asked_again_where_the_run_goes_on_and_may_block_what_a_person_approved(systems: Systems) -> None:
    here, there = systems
    allowed = [True]

    class Guard(us.AgentCallback):
        def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
            return us.Continue() if allowed[0] else us.Block("closed")

    clerk = agent("clerk", calls("pay", cents=1), says("ok"), tools=(pay,)).replace(callbacks=[Guard()])

    paused = needs_approval(clerk.run("go", system=here))
    allowed[0] = False
    outcome = finished(clerk.resume(paused.token, us.Approve(), system=there))

    assert [(result.error_kind, result.content) for result in results_of(outcome)] == [("blocked", "Blocked: closed")]


def test_a_guard_that_wants_an_approval_of_a_sub_agents_call_is_asked_on_both_sides_of_it(systems: Systems) -> None:
    here, there = systems

    class Guard(us.AgentCallback):
        def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
            return us.RequireApproval("costly")

    child = agent("writer", calls("pay", cents=1), says("ok"), tools=(pay,))
    lead = lead_of(child).replace(callbacks=[Guard()])

    first = needs_approval(lead.run("go", system=here))
    second = needs_approval(lead.resume(first.token, us.Approve(), system=there))
    outcome = finished(lead.resume(second.token, us.Approve(), system=there))

    assert [pause.path for pause in (*first.pauses, *second.pauses)] == [("lead",), ("lead", "writer")]
    assert [result.content for result in results_of(outcome)] == ["ok"]


def test_a_callback_that_blocks_the_call_of_a_sub_agent_keeps_it_from_running() -> None:
    class Guard(us.AgentCallback):
        def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
            return us.Block("not today")

    child = agent("writer", says("ok"))
    outcome = finished(lead_of(child).replace(callbacks=[Guard()], on_tool_error="raise").run("go"))

    assert isinstance(child.model, ScriptedModel)
    assert child.model.requests == []
    assert results_of(outcome)[0].error_kind == "blocked"


@pytest.mark.parametrize("action", [us.Skip("later"), us.Block("no")])
def test_a_call_that_callbacks_keep_from_running_ends_no_run(action: us.CallbackAction) -> None:
    class Guard(us.AgentCallback):
        def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
            return action

    clerk = agent("clerk", calls("breaks"), says("ok"), tools=(breaks,)).replace(callbacks=[Guard()])

    assert clerk.run("go").text == "ok"


def test_a_result_that_a_callback_rewrites_still_ends_the_run_where_its_error_does() -> None:
    class Softer(us.AgentCallback):
        def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> us.CallbackAction:
            return us.RewriteResult("it went wrong")

    clerk = agent("clerk", calls("breaks"), tools=(breaks,)).replace(callbacks=[Softer()])

    with pytest.raises(us.ToolError, match="it went wrong"):
        clerk.run("go")


def test_what_a_tool_says_with_retry_is_seen_and_may_be_rewritten() -> None:
    def again() -> str:
        """Wish for another."""
        raise us.Retry("bigger")

    class Louder(us.AgentCallback):
        def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> us.CallbackAction:
            return us.RewriteResult(result.content.upper())

    clerk = agent("clerk", calls("again"), says("ok"), tools=(again,))
    outcome = finished(clerk.replace(callbacks=[Louder()], on_tool_error="raise").run("go"))

    (result,) = results_of(outcome)
    assert (result.content, result.is_error, result.error_kind) == ("BIGGER", True, "retry")


# --- failing tools beside sub-agents


def test_a_tool_that_ends_the_run_cancels_the_sub_agents_beside_it_and_what_they_spent_counts() -> None:
    asked, cancelled = threading.Event(), threading.Event()

    def slow(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return us.ModelTurn(calls("note").parts, TEN)
        scope = us.current_scope()
        assert scope is not None
        scope.on_cancel(cancelled.set)
        asked.set()
        cancelled.wait(WAIT)
        return us.ModelTurn(says("too late").parts, TEN)

    def note(ctx: us.ToolContext) -> str:
        """Note."""
        ctx.session["noted"] = True
        return "noted"

    @us.tool(on_error="raise")
    def fails() -> str:
        """Fail once the other one is at work."""
        assert asked.wait(WAIT)
        raise OSError("no disk")

    child = us.Agent("writer", model=FunctionModel(slow), tools=[note])
    session = us.SessionState({"customer": "ada"})
    notes = Notes()
    lead = lead_of(child, tools=(fails,)).replace(callbacks=[notes])
    handle = lead.submit("go", session=session)

    with pytest.raises(us.ToolError, match="no disk"):
        handle.result(WAIT)

    assert cancelled.wait(WAIT)
    assert dict(session) == {"customer": "ada"}
    assert notes.seen[-1] == "error ToolError"


def test_what_was_spent_by_sub_agents_counts_also_where_one_of_them_ends_the_run() -> None:
    over = threading.Event()

    class Tells(us.AgentCallback):
        def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
            over.set()
            return us.Continue()

    def fails(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return us.ModelTurn(calls("look").parts, TEN)
        assert over.wait(WAIT)
        raise us.ProviderError("down")

    good = agent("good", says("ok")).replace(callbacks=[Tells()])
    bad = us.Agent("bad", model=FunctionModel(fails))
    lead = lead_of(good, bad).replace(on_tool_error="raise")

    class Watch(us.AgentCallback):
        def on_error(self, ctx: us.RunContext, error: BaseException) -> us.CallbackAction:
            return us.OverrideResponse("It did not work.")

    outcome = finished(lead.replace(callbacks=[Watch()]).run("go"))

    assert (outcome.text, outcome.usage.total_tokens) == ("It did not work.", 30)


# --- tapes


def test_parallel_sub_agents_with_retries_are_replayed_to_the_same_outcome(tmp_path: Path) -> None:
    tries: list[int] = []

    @us.tool(retries=2)
    def flaky() -> str:
        """Work the second time."""
        tries.append(1)
        if len(tries) % 2:
            raise OSError("busy")
        return "worked"

    def company() -> tuple[us.Agent, list[us.Agent]]:
        below = [agent(f"w{n}", calls("flaky"), says(f"w{n} is done"), tools=(flaky,)) for n in range(3)]
        below[2] = agent("w2", us.RateLimited("slow down"))
        made = agent("lead", calls("w0", input="a") + calls("w1", input="b") + calls("w2", input="c"), says("Done."))
        return made.replace(sub_agents=below), below

    def outcome_with(model_of: Callable[[us.Model], us.Model], lead: us.Agent, below: list[us.Agent]) -> us.Complete:
        with ExitStack() as stack:
            for each in (lead, *below):
                assert isinstance(each.model, ScriptedModel)
                stack.enter_context(each.override(model=model_of(each.model)))
            return finished(lead.run("go"))

    lead, below = company()
    with us.Recorder(tmp_path / "tape.jsonl") as recorder:
        first = outcome_with(recorder.record, lead, below)
    replay = us.Replay(tmp_path / "tape.jsonl")
    second = outcome_with(lambda _: replay, lead, below)

    assert [(r.content, r.is_error) for r in results_of(second)] == [(r.content, r.is_error) for r in results_of(first)]
    assert (second.text, second.usage, second.turns) == (first.text, first.usage, first.turns)
    assert (replay.given, replay.calls) == (7, 7)


# --- restarts


def test_an_agent_that_fails_mid_run_goes_on_with_everything_it_has(systems: Systems) -> None:
    here, there = systems
    memory, notes = us.InMemoryMemory(), Notes()
    failures = [RuntimeError("callback broke")]

    class Breaks(us.AgentCallback):
        def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> us.CallbackAction:
            if failures:
                raise failures.pop()
            return us.Continue()

    class Till(us.Toolset):
        @us.tool(max_result=5)
        def look(self) -> str:
            """Look."""
            return "a long text"

    child = agent("writer", calls("pay", cents=1), says("ok"), tools=(pay,))
    turns = (calls("look"), calls("writer", input="go"), says("Done."))
    lead = us.Agent(
        "lead",
        model=ScriptedModel([us.ModelTurn(turn.parts, TEN) for turn in turns]),
        tools=[Till],
        sub_agents=[child],
        callbacks=[notes, Breaks()],
        memory=memory,
        budget=us.Budget(total_tokens=1_000, tool_calls=3),
    )

    paused = needs_approval(lead.run("go", system=here, conversation_id="c-42"))
    outcome = finished(lead.resume(paused.token, us.Approve(), system=there))

    assert outcome.usage.total_tokens == 50
    assert [artifact.text for artifact in outcome.artifacts.values()] == ["a long text"]
    assert notes.seen.count("after look") == 1
    assert len(memory.load(us.ConversationKey("shop", "default", "c-42"))) == len(outcome.messages) == 6


def test_a_sub_agent_whose_callback_fails_pays_for_each_turn_once_at_every_level() -> None:
    failures = [RuntimeError("one"), RuntimeError("two")]

    class Breaks(us.AgentCallback):
        def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
            if failures:
                raise failures.pop()
            return us.Continue()

    child = agent("writer", says("ok")).replace(callbacks=[Breaks()])

    outcome = finished(lead_of(child).run("go", budget=us.Budget(turns=3)))

    assert outcome.usage.total_tokens == 30
    assert [result.content for result in results_of(outcome)] == ["ok"]


def test_a_sub_agent_that_is_poison_is_a_call_that_failed_and_what_it_spent_counts() -> None:
    class Breaks(us.AgentCallback):
        def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
            raise RuntimeError("always")

    memory = us.InMemoryMemory()
    child = agent("writer", says("ok")).replace(callbacks=[Breaks()])
    lead = lead_of(child).replace(memory=memory)

    outcome = finished(lead.run("go", conversation_id="c-42"))

    assert "AgentCrashed" in results_of(outcome)[0].content
    assert outcome.usage.total_tokens == 30
    assert len(memory.load(us.ConversationKey("understudy", "default", "c-42"))) == 4


@pytest.mark.parametrize("watched", [False, True])
def test_a_tool_that_ends_the_run_beside_a_sub_agent_that_waits_leaves_nothing_that_waits(watched: bool) -> None:
    store, begun = DictStore(), threading.Event()

    @us.tool(on_error="raise")
    def fails() -> str:
        """Fail once the other one waits."""
        assert begun.wait(WAIT)
        raise OSError("no disk")

    class Tells(us.AgentCallback):
        def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
            begun.set()
            return us.Continue()

    child = agent("writer", calls("pay", cents=1), tools=(pay,)).replace(callbacks=[Tells()])
    lead = lead_of(child, tools=(fails,)).replace(callbacks=[Notes()] if watched else [])
    with us.ActorSystem("shop", store=store) as system:
        with pytest.raises(us.ToolError, match="no disk"):
            lead.run("go", system=system)
        assert system.health().runs == ()

    assert store.runs == {}


# --- forks


def test_a_forked_child_uses_every_feature_that_its_parent_has_used() -> None:
    memory = us.InMemoryMemory()

    def run() -> None:
        child = agent("writer", calls("pay", cents=1), says("ok"), tools=(pay,))
        lead = lead_of(child).replace(callbacks=[Notes()], memory=memory, budget=us.Budget(total_tokens=1_000))
        paused = needs_approval(lead.run("go", conversation_id="c-42", timeout=WAIT))
        outcome = finished(lead.resume(paused.token, us.Approve(), timeout=WAIT))
        assert (outcome.text, outcome.usage.total_tokens) == ("Done.", 40)

    run()
    in_child(run)
    run()

    assert len(memory.load(us.ConversationKey("understudy", "default", "c-42"))) == 8
