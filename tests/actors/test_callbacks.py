"""Callbacks in runs: when they are asked, on which thread, what their answers do, and what becomes of their failures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

import understudy as us
from tests.support.events import numbers
from tests.support.scripts import WAIT, eventually, finished, model_of, needs_approval, results_of
from understudy.testing import FunctionModel, ScriptedModel, calls, says

Answers = dict[str, Callable[..., us.CallbackAction]]


MOMENTS = ("before_model_call", "after_model_call", "before_tool_call", "after_tool_call", "on_error", "on_finish")


class Watcher(us.AgentCallback):
    """Notes each moment, and answers what it was told to."""

    def __init__(self, name: str = "Watcher", /, **answers: Callable[..., us.CallbackAction]) -> None:
        self.name = name
        self.answers: Answers = answers
        self.moments: list[str] = []
        self.seen: list[Any] = []
        self.threads: set[int] = set()

    def _note(self, moment: str, ctx: us.RunContext, detail: str, *seen: object) -> us.CallbackAction:
        self.moments.append(f"{moment} {detail}".strip())
        self.seen.append(seen)
        self.threads.add(threading.get_ident())
        answer = self.answers.get(moment)
        return us.Continue() if answer is None else answer(ctx, *seen)

    def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> us.CallbackAction:
        return self._note("before_model_call", ctx, str(request.turn), request)

    def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        return self._note("after_model_call", ctx, turn.text, turn)

    def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
        return self._note("before_tool_call", ctx, call.name, call)

    def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> us.CallbackAction:
        return self._note("after_tool_call", ctx, f"{call.name} {result.error_kind or 'ok'}", call, result)

    def on_error(self, ctx: us.RunContext, error: BaseException) -> us.CallbackAction:
        return self._note("on_error", ctx, type(error).__name__, error)

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
        return self._note("on_finish", ctx, outcome.status, outcome)


def always(action: us.CallbackAction) -> Callable[..., us.CallbackAction]:
    """Make an answer that is the same every time."""

    def answer(*_: object) -> us.CallbackAction:
        return action

    return answer


def telling(event: threading.Event, action: us.CallbackAction) -> Callable[..., us.CallbackAction]:
    """Make an answer that sets an event."""

    def answer(*_: object) -> us.CallbackAction:
        event.set()
        return action

    return answer


ran: list[dict[str, us.JsonValue]] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def look(sku: str) -> str:
    ran.append({"sku": sku})
    return f"found {sku}"


@us.tool(approval=True)
def refund(cents: int) -> str:
    ran.append({"cents": cents})
    return f"paid {cents}"


def watched(
    *turns: us.ModelTurn | Exception, by: us.AgentCallback | list[us.AgentCallback], max_iterations: int = 10
) -> us.Agent:
    callbacks = by if isinstance(by, list) else [by]
    model = ScriptedModel(turns)
    return us.Agent("clerk", model=model, tools=[look, refund], callbacks=callbacks, max_iterations=max_iterations)


# --- when


def test_a_run_asks_at_every_moment_in_order_and_never_on_the_thread_that_waits_for_it() -> None:
    watcher = Watcher()
    agent = watched(calls("look", sku="A") + calls("look", sku="B"), says("Two."), by=watcher)

    outcome = finished(agent.run("How many?"))

    assert watcher.moments == [
        "before_model_call 1",
        "after_model_call",
        "before_tool_call look",
        "before_tool_call look",
        "after_tool_call look ok",
        "after_tool_call look ok",
        "before_model_call 2",
        "after_model_call Two.",
        "on_finish complete",
    ]
    assert threading.get_ident() not in watcher.threads
    assert watcher.seen[-1] == (outcome,)


def test_a_run_with_criteria_tools_and_a_sub_agent_stays_on_one_thread() -> None:
    watcher, threads = Watcher(), list[int]()

    def note() -> str:
        threads.append(threading.get_ident())
        return "noted"

    def is_met(ctx: us.RunContext, text: str) -> bool:
        return bool(note())

    def agent(id: str, *turns: us.ModelTurn, sub_agents: tuple[us.Agent, ...] = ()) -> us.Agent:
        left = iter(turns)
        model = FunctionModel(lambda request: next(left) if note() else says(""))
        return us.Agent(id, model=model, tools=[note], sub_agents=sub_agents, callbacks=[watcher], criteria=[is_met])

    writer = agent("writer", calls("note"), says("A draft."))
    turns = calls("note"), calls("writer", input="?"), calls("note"), says("Done.")

    assert finished(agent("lead", *turns, sub_agents=(writer,)).run("go")).text == "Done."

    assert watcher.moments.count("on_finish complete") == 2
    assert len(threads) == 6 + 3 + 2  # answers of models, calls of the tool, criteria
    assert watcher.threads == set(threads)
    assert len(watcher.threads) == 1


def test_what_a_callback_sets_in_context_variables_is_there_until_the_run_ends_and_what_a_tool_sets_with_its_call() -> (
    None
):
    by_callback, by_tool = ContextVar("by_callback", default=""), ContextVar("by_tool", default="")
    seen: list[tuple[str, str, str]] = []

    def note(where: str) -> None:
        seen.append((where, by_callback.get(), by_tool.get()))

    class Sets(us.AgentCallback):
        def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> None:
            note("before")
            by_callback.set("set")

        def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> None:
            note("after")

    def look() -> str:
        note("tool")
        by_tool.set("set")
        return "seen"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        note("model")
        return calls("look") if request.turn == 1 else says("ok")

    us.Agent("clerk", model=FunctionModel(answer), tools=[look], callbacks=[Sets()]).run("go")

    assert seen == [
        ("model", "", ""),
        ("before", "", ""),
        ("tool", "set", ""),
        ("after", "set", ""),
        ("model", "set", ""),
    ]
    assert by_callback.get() == ""


def test_a_call_has_one_id_at_every_moment_also_when_the_provider_sends_none() -> None:
    watcher = Watcher()

    watched(calls("look", sku="A") + calls("look", sku="B"), says("Two."), by=watcher).run("How many?")

    (turn,), before, after = watcher.seen[1], watcher.seen[2:4], watcher.seen[4:6]
    ids = [call.id for call in turn.tool_calls]
    assert len(set(ids)) == 2 and all(ids)
    assert [call.id for (call,) in before] == ids
    assert [(call.id, result.call_id) for call, result in after] == [(id, id) for id in ids]


def test_callbacks_are_asked_in_order_and_none_after_the_first_that_decides() -> None:
    first, second, third = (
        Watcher(),
        Watcher(before_tool_call=always(us.Block("No."))),
        Watcher(),
    )

    watched(calls("look", sku="A"), says("ok"), by=[first, second, third]).run("go")

    assert "before_tool_call look" in first.moments
    assert "before_tool_call look" not in third.moments
    assert "after_tool_call look blocked" in third.moments  # only the moment was decided
    assert third.moments[-1] == "on_finish complete"


def test_every_result_is_seen_be_it_an_error_blocked_rejected_invalid_or_timed_out() -> None:
    held = threading.Event()

    @us.tool(timeout=0.01)
    def hangs() -> str:
        held.wait(WAIT)
        return "late"

    def breaks() -> str:
        raise LookupError("no such shelf")

    def block(ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
        return us.Block("No.") if call.arguments.get("sku") == "X" else us.Continue()

    watcher = Watcher(before_tool_call=block)
    turn = (
        calls("refund", cents=1)
        + calls("hangs")
        + calls("look", sku="X")
        + calls("breaks")
        + calls("nothing")
        + calls("look", sku=1)
        + calls("look", sku="A")
    )
    model = ScriptedModel([turn, says("ok")])
    agent = us.Agent("clerk", model=model, tools=[look, refund, hangs, breaks], callbacks=[watcher])

    waiting = needs_approval(agent.run("go"))
    agent.resume(waiting.token, us.Reject("Too much."))
    held.set()

    seen = [moment for moment in watcher.moments if moment.startswith("after_tool_call")]
    assert seen == [
        "after_tool_call hangs timed_out",
        "after_tool_call look blocked",
        "after_tool_call breaks raised",
        "after_tool_call nothing unknown_tool",
        "after_tool_call look bad_arguments",
        "after_tool_call look ok",
        "after_tool_call refund rejected",
    ]
    asked = [
        call.arguments
        for moment, (call, *_) in zip(watcher.moments, watcher.seen, strict=True)
        if "before_tool" in moment
    ]
    assert {"sku": 1} not in asked  # only calls that could run


def test_a_single_call_that_hangs_is_seen_too_when_its_run_goes_on() -> None:
    held = threading.Event()

    @us.tool(timeout=0.01)
    def hangs() -> str:
        held.wait(WAIT)
        return "late"

    watcher = Watcher()
    agent = us.Agent("clerk", model=ScriptedModel([calls("hangs"), says("ok")]), tools=[hangs], callbacks=[watcher])

    finished(agent.run("go"))
    held.set()

    assert [m for m in watcher.moments if "tool" in m] == ["before_tool_call hangs", "after_tool_call hangs timed_out"]


# --- what they see, and keep


def test_a_callback_sees_the_run_and_what_it_writes_to_the_session_is_kept() -> None:
    def count(ctx: us.RunContext, *_: object) -> us.CallbackAction:
        number = ctx.session.get("moments", 0)
        assert isinstance(number, int)
        ctx.session["moments"] = number + 1
        assert ctx.deps == "the bank"
        assert (ctx.agent_id, ctx.user_id, ctx.conversation_id, ctx.input) == ("clerk", "ada", "c-1", "go")
        return us.Continue()

    names = ("before_model_call", "after_model_call", "before_tool_call", "after_tool_call", "on_finish")
    watcher = Watcher(**dict.fromkeys(names, count))
    session = us.SessionState({"moments": 10})

    outcome = watched(calls("look", sku="A"), says("ok"), by=watcher).run(
        "go", session=session, deps="the bank", user_id="ada", conversation_id="c-1"
    )

    assert session["moments"] == 17
    assert outcome.session["moments"] == 17


def test_what_a_callback_wrote_before_it_failed_is_dropped() -> None:
    failures = [LookupError("once")]

    def write(ctx: us.RunContext, *_: object) -> us.CallbackAction:
        ctx.session.setdefault("tries", 0)
        ctx.session["wrote"] = "half"
        if failures:
            raise failures.pop()
        ctx.session["wrote"] = "all"
        return us.Continue()

    outcome = watched(says("ok"), by=Watcher(after_model_call=write)).run("go")

    assert outcome.session == {"tries": 0, "wrote": "all"}


def test_rounds_and_turns_so_far_are_in_the_context() -> None:
    seen: list[tuple[int, int]] = []

    def note(ctx: us.RunContext, *_: object) -> us.CallbackAction:
        seen.append((ctx.turns, ctx.iterations))
        return us.Continue()

    watched(calls("look", sku="A"), says("ok"), by=Watcher(before_model_call=note, on_finish=note)).run("go")

    assert seen == [(0, 0), (1, 1), (2, 1)]


# --- model calls


def test_a_text_in_place_of_the_model_call_ends_the_run_and_the_model_is_not_asked() -> None:
    watcher = Watcher(before_model_call=always(us.OverrideResponse("From the cache.")))
    agent = watched(says("From the model."), by=watcher)

    outcome = finished(agent.run("go"))

    assert (outcome.text, outcome.turns) == ("From the cache.", 0)
    assert outcome.completion_reason == "callback 'Watcher' gave the text"
    assert model_of(agent).requests == []
    assert watcher.moments == ["before_model_call 1", "on_finish complete"]


def test_an_overridden_answer_is_not_kept_and_the_session_is_saved() -> None:
    session = us.SessionState()

    def override(ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        ctx.session["overridden"] = True
        return us.OverrideResponse("No comment.")

    agent = watched(says("The secret is 7.") + calls("look", sku="A"), by=Watcher(after_model_call=override))

    outcome = finished(agent.run("go", session=session))

    assert (outcome.text, outcome.output, outcome.turns) == ("No comment.", "No comment.", 1)
    assert [message.text for message in outcome.messages] == ["go", "No comment."]
    assert "The secret" not in f"{outcome.to_dict()} {outcome.messages}"
    assert dict(session) == {"overridden": True}
    assert ran == []


def test_a_rejected_answer_is_tried_again_with_the_feedback_and_not_shown_to_the_model() -> None:
    def judge(ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        return us.RetryWithFeedback("Be kind.") if "fool" in turn.text else us.Continue()

    agent = watched(says("You fool."), says("Dear Ada."), by=Watcher(after_model_call=judge))

    outcome = finished(agent.run("go"))

    assert (outcome.text, outcome.turns) == ("Dear Ada.", 2)
    assert [m.text for m in model_of(agent).requests[1].messages] == ["go", "Be kind."]


def test_a_model_whose_answers_are_all_rejected_comes_to_an_end() -> None:
    watcher = Watcher("Kindness", after_model_call=always(us.RetryWithFeedback("Be kind.")))
    agent = us.Agent("clerk", model=FunctionModel(lambda request: says("You fool.")), callbacks=[watcher])

    with pytest.raises(us.CallbackAbort, match="rejected 9 turns in a row") as caught:
        agent.run("go")

    assert caught.value.callback == "Kindness"
    assert watcher.moments[-1] == "on_error CallbackAbort"


@pytest.mark.parametrize("moment", ["before_model_call", "after_model_call", "before_tool_call", "after_tool_call"])
def test_an_abort_ends_the_run_with_its_message_and_its_callbacks_name(moment: str) -> None:
    watcher = Watcher("Curfew", **{moment: always(us.Abort("The shop is closed."))})
    agent = watched(calls("look", sku="A"), says("ok"), by=watcher)

    with pytest.raises(us.CallbackAbort) as caught:
        agent.run("go")

    assert str(caught.value) == "The shop is closed."
    assert caught.value.callback == "Curfew"
    assert caught.value.run_id
    assert ran == ([{"sku": "A"}] if moment == "after_tool_call" else [])
    assert watcher.moments[-1] == "on_error CallbackAbort"


# --- tool calls


@pytest.mark.parametrize(
    ("action", "content", "error_kind", "arguments"),
    [
        (us.Block("not on Sundays"), "Blocked: not on Sundays", "blocked", []),
        (us.Skip("found it in the cache"), "found it in the cache", "skipped", []),
        (us.RewriteArguments({"sku": "B"}), "found B", "", [{"sku": "B"}]),
        (us.RewriteArguments({"sku": 7}), None, "bad_arguments", []),
    ],
)
def test_the_answer_before_a_call_decides_whether_and_with_what_it_runs(
    action: us.CallbackAction, content: str | None, error_kind: str, arguments: list[object]
) -> None:
    watcher = Watcher(before_tool_call=always(action))

    outcome = finished(watched(calls("look", sku="A"), says("ok"), by=watcher).run("go"))

    (result,) = results_of(outcome)
    assert content is None or result.content == content
    assert (result.error_kind, result.is_error) == (error_kind, error_kind in ("blocked", "bad_arguments"))
    assert ran == arguments
    assert outcome.messages[1].tool_calls[0].arguments == {"sku": "A"}


def test_the_model_reads_a_rewritten_result_and_events_tell_what_the_tool_gave() -> None:
    watcher = Watcher(after_tool_call=always(us.RewriteResult("***")))
    agent = watched(calls("look", sku="A"), says("ok"), by=watcher)

    handle = agent.submit("go")
    handle.result(WAIT)

    assert model_of(agent).requests[1].tool_results[0].content == "***"
    assert [e.result.content for e in handle.events() if isinstance(e, us.ToolFinished)] == ["found A"]


def test_events_tell_of_a_blocked_call_from_its_start_to_its_end_once() -> None:
    watcher = Watcher(before_tool_call=always(us.Block("No.")))

    handle = watched(calls("look", sku="A"), says("ok"), by=watcher).submit("go")
    handle.result(WAIT)

    told = [type(event).__name__ for event in handle.events() if "Tool" in type(event).__name__]
    assert told == ["ToolStarted", "ToolFinished"]


def test_a_callback_can_have_a_person_asked_who_reads_why() -> None:
    watcher = Watcher(before_tool_call=always(us.RequireApproval("It is late.")))
    agent = watched(calls("look", sku="A"), says("ok"), by=watcher)

    waiting = needs_approval(agent.run("go"))

    assert ran == []
    (pause,) = waiting.pauses
    assert pause.reasons == {waiting.calls[0].id: "It is late."}
    finished(agent.resume(waiting.token, us.Approve()))
    assert ran == [{"sku": "A"}]  # the second time approval counts as given


def test_a_guard_sees_what_a_person_made_of_the_arguments() -> None:
    def limit(ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
        cents = call.arguments["cents"]
        assert isinstance(cents, int)
        return us.Block("More than 100.") if cents > 100 else us.Continue()

    agent = watched(calls("refund", cents=5), says("ok"), by=Watcher(before_tool_call=limit))
    waiting = needs_approval(agent.run("go"))

    outcome = finished(agent.resume(waiting.token, us.Approve(arguments={"cents": 5_000_000})))

    assert [r.error_kind for r in results_of(outcome)] == ["blocked"]
    assert ran == []


# --- how a run ends


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (us.RateLimited("slow down"), "RateLimited"),
        (calls("look", sku="A"), "MaxIterationsExceeded"),
        (calls("broken", sku="A"), "ToolError"),
    ],
)
def test_an_error_can_be_replaced_by_a_text_and_no_call_stays_without_an_answer(
    turn: us.ModelTurn | Exception, error: str
) -> None:
    watcher = Watcher(on_error=always(us.OverrideResponse("Please try later.")))
    limit = 0 if error == "MaxIterationsExceeded" else 10
    agent = watched(turn, by=watcher, max_iterations=limit).replace(tools=[look, broken], on_tool_error="raise")

    outcome = finished(agent.run("go"))

    assert outcome.text == "Please try later."
    assert watcher.moments[-2:] == [f"on_error {error}", "on_finish complete"]
    asked = [call.id for message in outcome.messages for call in message.tool_calls]
    assert [result.call_id for result in results_of(outcome)] == asked


def test_a_callback_that_fails_over_an_error_does_not_hide_it_but_fails_the_agent(system: us.ActorSystem) -> None:
    def fail(ctx: us.RunContext, error: BaseException) -> us.CallbackAction:
        raise LookupError("no address to write to")

    agent = watched(us.RateLimited("slow down"), by=Watcher(on_error=fail))

    with pytest.raises(us.RateLimited, match="slow down"):
        agent.run("go", system=system)

    assert [actor.failed for actor in system.health().actors if actor.address == "shop/clerk"] == [1]


@pytest.mark.parametrize(("timeout", "error"), [(None, us.RunCancelled), (0.05, us.RunTimedOut)])
def test_a_run_that_is_ended_from_outside_tells_its_callbacks_once(
    timeout: float | None, error: type[us.RunError]
) -> None:
    asked, go_on, told = threading.Event(), threading.Event(), threading.Event()

    def wait(request: us.ModelRequest) -> us.ModelTurn:
        asked.set()
        go_on.wait(WAIT)
        return says("late")

    watcher = Watcher(on_error=telling(told, us.OverrideResponse("No effect.")))
    handle = us.Agent("clerk", model=FunctionModel(wait), callbacks=[watcher]).submit("go", timeout=timeout)
    assert asked.wait(WAIT)

    if timeout is None:
        handle.cancel()
    assert told.wait(WAIT)
    go_on.set()

    assert isinstance(handle.exception(WAIT), error)
    assert watcher.moments == ["before_model_call 1", f"on_error {error.__name__}"]


def broken(sku: str) -> str:
    raise LookupError("no such shelf")


def test_a_tool_error_that_ends_the_run_is_seen_by_every_moment_and_keeps_its_cause() -> None:
    watcher = Watcher()
    model = ScriptedModel([calls("broken", sku="A")])
    agent = us.Agent("clerk", model=model, tools=[broken], on_tool_error="raise", callbacks=[watcher])

    with pytest.raises(us.ToolError, match="no such shelf") as caught:
        agent.run("go")

    assert isinstance(caught.value.__cause__, LookupError)
    assert watcher.moments[-2:] == ["after_tool_call broken raised", "on_error ToolError"]


def test_a_guards_no_is_for_the_model_also_where_tool_errors_end_the_run() -> None:
    watcher = Watcher(before_tool_call=always(us.Block("No.")))
    model = ScriptedModel([calls("look", sku="A"), says("ok")])
    agent = us.Agent("clerk", model=model, tools=[look], on_tool_error="raise", callbacks=[watcher])

    assert finished(agent.run("go")).text == "ok"


# --- failures of callbacks


@pytest.mark.parametrize(
    "moment", ["before_model_call", "after_model_call", "before_tool_call", "after_tool_call", "on_finish"]
)
def test_a_callback_that_fails_is_asked_again_and_nothing_that_was_done_is_done_twice(
    moment: str, system: us.ActorSystem
) -> None:
    failures = [LookupError("first"), LookupError("second")]

    def fail(*_: object) -> us.CallbackAction:
        if failures:
            raise failures.pop()
        return us.Continue()

    before, sick = Watcher(), Watcher(**{moment: fail})
    agent = watched(calls("look", sku="A"), says("ok"), by=[before, sick])

    outcome = finished(agent.run("go", system=system))

    assert outcome.text == "ok"
    assert len(model_of(agent).requests) == 2
    assert ran == [{"sku": "A"}]
    assert len(before.moments) == len(set(before.moments)) == 7  # its decisions stood while the other one failed
    assert [actor.failed for actor in system.health().actors if actor.address == "shop/clerk"] == [2]


def test_a_poisoned_run_tells_the_callbacks_that_work() -> None:
    told = threading.Event()

    def fail(*_: object) -> us.CallbackAction:
        raise LookupError("no such audit")

    well = Watcher(on_error=telling(told, us.Continue()))
    with pytest.raises(us.AgentCrashed, match="failed 3 times") as caught:
        watched(says("ok"), by=[Watcher(before_model_call=fail, on_error=fail), well]).run("go")

    assert [type(cause) for cause in caught.value.causes] == [LookupError] * 3
    assert told.wait(WAIT)
    assert well.moments[-1] == "on_error AgentCrashed"


def test_other_runs_of_the_agent_are_not_interrupted_by_a_callback_that_fails(system: us.ActorSystem) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.text == "slow":
            asked.set()
            go_on.wait(WAIT)
        return says("ok")

    def fail(ctx: us.RunContext, request: us.ModelRequest) -> us.CallbackAction:
        if ctx.input == "sick":
            raise LookupError("no such audit")
        return us.Continue()

    agent = us.Agent("clerk", model=FunctionModel(answer), callbacks=[Watcher(before_model_call=fail)])
    handle = agent.submit("slow", system=system)
    assert asked.wait(WAIT)
    with pytest.raises(us.AgentCrashed):
        agent.run("sick", system=system)
    go_on.set()

    assert finished(handle.result(WAIT)).text == "ok"


def test_an_error_of_understudys_own_that_a_callback_raises_ends_the_run_as_it_is() -> None:
    def moderate(ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        raise us.RateLimited("the moderator is busy")

    with pytest.raises(us.RateLimited, match="the moderator is busy"):
        watched(says("ok"), by=Watcher(after_model_call=moderate)).run("go")


def test_none_continues_at_every_moment() -> None:
    silent = Watcher(**dict.fromkeys(MOMENTS, lambda *_: None))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    outcome = finished(watched(calls("look", sku="A"), says("ok"), by=silent).run("go"))
    with pytest.raises(us.RateLimited):
        watched(us.RateLimited("slow down"), by=silent).run("go")

    asked = [moment.split()[0] for moment in silent.moments]
    model = ["before_model_call", "after_model_call"]
    assert asked[:7] == [*model, "before_tool_call", "after_tool_call", *model, "on_finish"]
    assert asked[7:] == ["before_model_call", "on_error"]
    assert outcome.text == "ok"


async def answers_later() -> us.CallbackAction:
    return us.Continue()


# A coroutine that nobody awaits is told by these two; other warnings may be of what earlier tests have left.
@pytest.mark.filterwarnings("error::RuntimeWarning", "error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("moment", "action", "why", "runs"),
    [
        ("before_model_call", us.RetryWithFeedback("No."), "Continue, OverrideResponse, Abort", 0),
        ("before_model_call", lambda: True, "it answered a value of type bool", 0),
        ("after_model_call", us.Block("No."), "Continue, OverrideResponse, RetryWithFeedback, Abort", 0),
        ("after_model_call", answers_later, "it answered a coroutine; write a plain function", 0),
        ("after_tool_call", us.Skip("No."), "Continue, RewriteResult, OverrideResponse, Abort", 1),
    ],
)
def test_an_answer_that_the_moment_does_not_take_ends_the_run_at_once(
    moment: str, action: object, why: str, runs: int, system: us.ActorSystem
) -> None:
    def answer(*_: object) -> Any:
        return action() if callable(action) else action

    agent = watched(calls("look", sku="A"), says("ok"), by=Watcher("Guard", **{moment: answer}))

    with pytest.raises(us.CallbackAbort, match=f"callback 'Guard': {moment} takes .*{why}") as caught:
        agent.run("go", system=system)

    assert caught.value.callback == "Guard"
    assert len(ran) == runs
    assert [actor.failed for actor in system.health().actors if actor.address == "shop/clerk"] == [0]


@pytest.mark.parametrize("action", [False, "no", us.RewriteResult("No."), us.Block, us.Continue])
def test_a_call_does_not_run_if_the_answer_before_it_is_none_that_is_taken_there(action: Any) -> None:
    agent = watched(calls("look", sku="A"), says("ok"), by=Watcher("Guard", before_tool_call=lambda *_: action))

    (refused,) = results_of(finished(agent.run("go")))

    assert ran == []
    assert refused.error_kind == "blocked"
    assert refused.content.startswith("Blocked: callback 'Guard': before_tool_call takes Continue, RewriteArguments")


@pytest.mark.parametrize("action", [us.OverrideResponse("No."), us.Abort("No."), True, us.Continue])
def test_an_outcome_stands_whatever_is_answered_at_the_end(action: Any, caplog: pytest.LogCaptureFixture) -> None:
    agent = watched(says("ok"), by=Watcher("Guard", on_finish=lambda *_: action))

    assert finished(agent.run("go")).text == "ok"
    assert "callback 'Guard': on_finish takes Continue; it answered" in caplog.text


def test_a_text_before_a_call_ends_the_run_saves_memory_and_session_and_runs_nothing_of_the_turn(
    system: us.ActorSystem,
) -> None:
    def refuse(ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
        ctx.session["asked"] = call.arguments["sku"]
        return us.OverrideResponse("Closed.") if call.arguments["sku"] == "B" else us.Continue()

    memory, session = us.InMemoryMemory(), us.SessionState()
    watcher = Watcher("Hours", before_tool_call=refuse)
    turn = calls("look", sku="A") + calls("look", sku="B") + calls("look", sku="C")
    agent = watched(turn, by=watcher).replace(memory=memory)

    outcome = finished(agent.run("go", conversation_id="7", session=session, system=system))

    assert (outcome.text, outcome.completion_reason) == ("Closed.", "callback 'Hours' gave the text")
    assert ran == []
    assert [(r.error_kind, r.content) for r in results_of(outcome)] == [
        ("not_run", "Not run: a callback ended the run.")
    ] * 3
    assert [m.split()[0] for m in watcher.moments[2:]] == ["before_tool_call", "before_tool_call", "on_finish"]
    assert memory.load(us.ConversationKey("shop", "default", "7"))[-1].text == "Closed."
    assert dict(session) == {"asked": "B"}


def test_a_text_ends_the_run_in_place_of_what_the_model_would_say_to_a_result() -> None:
    watcher = Watcher("Cache", after_tool_call=always(us.OverrideResponse("Seven.")))
    agent = watched(calls("look", sku="A") + calls("look", sku="B"), by=watcher)

    outcome = finished(agent.run("go"))

    assert outcome.text == outcome.messages[-1].text == "Seven."
    assert [r.is_error for r in results_of(outcome)] == [False, False]
    assert len(model_of(agent).requests) == 1
    assert [m.split()[0] for m in watcher.moments].count("after_tool_call") == 1


@pytest.mark.parametrize("action", [us.Continue(), us.Abort("No.")])
def test_an_error_that_no_text_replaces_is_raised_as_it_is(action: us.CallbackAction) -> None:
    watcher = Watcher(on_error=always(action))

    with pytest.raises(us.RateLimited, match="slow down") as caught:
        watched(us.RateLimited("slow down"), by=watcher).run("go")

    assert watcher.seen[-1] == (caught.value,)
    assert watcher.moments[-1] == "on_error RateLimited"


def test_a_callback_that_hangs_keeps_its_thread_but_not_its_run_beyond_the_deadline_and_writes_nothing_then(
    system: us.ActorSystem,
) -> None:
    gate, came_back = threading.Event(), threading.Event()

    def hang(ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        gate.wait(WAIT)
        ctx.session["late"] = True
        came_back.set()
        return us.Continue()

    agent, session = watched(says("ok"), by=Watcher(after_model_call=hang)), us.SessionState()

    with pytest.raises(us.RunTimedOut, match="passed its deadline while asking callback Watcher"):
        agent.run("go", system=system, timeout=0.05, session=session)

    assert system.hung == 1
    gate.set()
    assert came_back.wait(WAIT)
    eventually(lambda: system.hung == 0, "the callback's thread is free")
    assert dict(session) == {}


def test_a_callback_is_called_by_its_class_unless_it_says_another_name() -> None:
    class Audit(us.AgentCallback):
        pass

    class Named(us.AgentCallback):
        name = "audit"

    assert [us.AgentCallback().name, Audit().name, Named().name, Watcher("w").name] == [
        "AgentCallback",
        "Audit",
        "audit",
        "w",
    ]


# --- definitions


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (us.LoggingCallback(), "callbacks must be a list of AgentCallback objects"),
        ([us.LoggingCallback], r"got a class; write LoggingCallback\(\)"),
        ([always(us.Continue())], "callbacks must hold AgentCallback objects"),
    ],
)
def test_what_is_no_callback_is_refused_when_the_agent_is_made(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        us.Agent("clerk", model=ScriptedModel([]), callbacks=given)


def test_a_changed_copy_keeps_the_callbacks() -> None:
    watcher = Watcher()

    assert watched(by=watcher).replace(max_turns=3).callbacks == (watcher,)


def test_one_callback_serves_many_runs_at_once(system: us.ActorSystem) -> None:
    watcher = Watcher()
    agent = us.Agent("clerk", model=FunctionModel(lambda request: says("ok")), callbacks=[watcher])

    handles = [agent.submit("go", system=system) for _ in range(20)]
    for handle in handles:
        finished(handle.result(WAIT))

    eventually(lambda: len(watcher.moments) == 60, "every run has told its three moments")
    assert Counter(watcher.moments) == dict.fromkeys(
        ["before_model_call 1", "after_model_call ok", "on_finish complete"], 20
    )


class Misspelt(us.AgentCallback):
    def before_tool(self, ctx: us.RunContext, call: us.ToolCall) -> None: ...


class Short(us.AgentCallback):
    def before_tool_call(self, call: us.ToolCall) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]


class Later(us.AgentCallback):
    async def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (Misspelt(), r"callback 'Misspelt' has a method before_tool\(\), .* did you mean before_tool_call\(\)"),
        (Short(), r"callback 'Short' has before_tool_call\(.*expected before_tool_call\(self, ctx, call\)"),
        (Later(), r"callback 'Later' has on_finish\(\) as async def"),
    ],
)
def test_hooks_that_would_never_be_called_are_refused_when_the_agent_is_made(
    callback: us.AgentCallback, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        us.Agent("clerk", model=ScriptedModel([]), callbacks=[callback])


def test_a_callback_may_have_methods_of_its_own() -> None:
    class Audit(us.AgentCallback):
        def note(self, word: str) -> None: ...

        def on_monday(self) -> None: ...

    audit = Audit()

    assert us.Agent("clerk", model=ScriptedModel([]), callbacks=[audit]).callbacks == (audit,)


@pytest.mark.parametrize(
    "action", [us.OverrideResponse("No comment."), us.RetryWithFeedback("Politely."), us.Abort("No.")]
)
def test_text_that_was_told_and_is_rejected_is_told_to_be_dropped(
    action: us.CallbackAction, system: us.ActorSystem
) -> None:
    def judge(ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        return action if turn.text == "Rude." else us.Continue()

    handle = watched(says("Rude."), says("Kind."), by=Watcher("Manners", after_model_call=judge)).submit(
        "go", system=system
    )
    handle.exception(WAIT)

    events = list(handle.events())
    (dropped,) = [event for event in events if isinstance(event, us.TurnDropped)]
    assert (dropped.turn, dropped.text, dropped.by) == (1, "Rude.", "Manners")
    before = events[events.index(dropped) - 1]
    assert isinstance(before, us.TurnFinished)
    assert numbers(events) == list(range(len(numbers(events))))


def test_calls_that_are_rejected_without_a_text_have_nothing_to_drop(system: us.ActorSystem) -> None:
    watcher = Watcher(after_model_call=always(us.Abort("No.")))
    handle = watched(calls("look", sku="A"), by=watcher).submit("go", system=system)
    handle.exception(WAIT)

    assert not any(isinstance(event, us.TurnDropped) for event in handle.events())
