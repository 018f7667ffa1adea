"""One tool call by hand: what the rules say of it, and how the runtime makes it."""

from __future__ import annotations

import threading
from typing import Any, Literal

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, eventually
from understudy.testing import ScriptedModel, calls, says


def look(order: int) -> str:
    return f"order {order}"


@us.tool(approval=True)
def refund(order: int) -> str:
    return f"paid {order}"


@us.tool(approval=lambda call, ctx: call.arguments["order"] != 7)
def cancel(order: int) -> str:
    return f"cancelled {order}"


def note(ctx: us.ToolContext, word: str) -> str:
    ctx.session["word"] = word
    return f"{ctx.deps} {ctx.user_id} {ctx.conversation_id}"


def clerk(*tools: us.ToolLike, **options: Any) -> us.Agent:
    return us.Agent("clerk", model=ScriptedModel([]), tools=tools, **options)


def call(name: str, **arguments: Any) -> us.ToolCall:
    return calls(name, **arguments).tool_calls[0]


# --- what the rules say


def test_each_call_of_a_turn_has_its_verdict_in_order() -> None:
    agent = clerk(look, refund, cancel, us.ask_user)
    turn = (
        calls("look", order=7)
        + calls("refund", order=7)
        + calls("cancel", order=7)
        + calls("lock", order=7)
        + calls("look", order="seven")
        + calls("ask_user", question="Which?")
    )

    checks = agent.check_calls(turn)

    assert [check.verdict for check in checks.checks] == [
        "allowed",
        "needs_approval",
        "needs_approval",
        "unknown_tool",
        "bad_arguments",
        "asks_user",
    ]
    assert [each.name for each in checks.needs_approval] == ["refund", "cancel"]
    assert [(bad.position, bad.kind) for bad in checks.invalid] == [(3, "unknown_tool"), (4, "bad_arguments")]
    assert "did you mean 'look'" in checks.invalid[0].reason
    assert list(checks.problems) == [4]


def test_the_verdicts_are_those_of_the_machine() -> None:
    agent = clerk(look, refund)
    turn = calls("look", order="seven") + calls("refund", order=7) + calls("lock")
    run = us.AgentRun(us.RunSpec.of(agent), "Go")
    run.next_step()
    checks = agent.check_calls(turn)

    assert run.invalid_calls(turn, checks.problems) == checks.invalid
    run.model_response(turn, problems=checks.problems)

    step = run.next_step()
    assert isinstance(step, us.AwaitApproval)
    assert [each.name for each in step.calls] == [each.name for each in checks.needs_approval]


def test_a_forced_tool_choice_holds_for_the_first_turn() -> None:
    agent = clerk(look, refund, settings=us.Settings(tool_choice="refund"))
    turn = calls("look", order=7)

    assert agent.check_calls(turn).allowed == ()
    assert agent.check_calls(turn, number=2).allowed == turn.tool_calls


def test_a_turn_without_calls_has_no_checks() -> None:
    assert clerk(look).check_calls(says("Hello")).checks == ()


@pytest.mark.parametrize("turn", ["text", None, [call("look", order=7)]])
def test_what_is_no_turn_is_a_type_error(turn: Any) -> None:
    with pytest.raises(TypeError, match="check_calls takes a ModelTurn"):
        clerk(look).check_calls(turn)


# --- how a call is made


def test_a_call_is_made_with_its_arguments_converted() -> None:
    result = clerk(look).execute(call("look", order="7"))

    assert (result.content, result.is_error, result.name) == ("order 7", False, "look")


def test_an_approval_is_not_asked_for() -> None:
    assert clerk(refund).execute(call("refund", order=7)).content == "paid 7"


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (call("lock", order=7), "unknown_tool"),
        (call("look", order="seven"), "bad_arguments"),
        (us.ToolCall("c", "look", {}, bad_arguments="{"), "bad_json"),
    ],
)
def test_a_call_that_cannot_run_has_an_error_result(made: us.ToolCall, kind: str) -> None:
    result = clerk(look).execute(made)

    assert (result.is_error, result.error_kind, result.call_id) == (True, kind, made.id)


@pytest.mark.parametrize("on_error", ["result", "raise"])
def test_a_tool_that_raises_has_an_error_result(on_error: Literal["result", "raise"]) -> None:
    def fail() -> str:
        raise LookupError("no such order")

    result = clerk(fail, on_tool_error=on_error).execute(call("fail"))

    assert (result.error_kind, result.content) == ("raised", "fail failed: LookupError: no such order")


def test_retries_and_the_time_limit_of_the_tool_hold() -> None:
    gate, made = Gate(), list[int]()

    @us.tool(retries=1, idempotent=True)
    def unsteady() -> str:
        made.append(1)
        if len(made) == 1:
            raise OSError("busy")
        return "done"

    @us.tool(timeout=0.05)
    def slow() -> str:
        gate()
        return "late"

    assert clerk(unsteady).execute(call("unsteady")).content == "done"
    assert clerk(slow).execute(call("slow")).error_kind == "timed_out"
    gate.open()


def test_session_deps_and_names_reach_the_tool_and_changes_come_back() -> None:
    session = us.SessionState({"customer": "ada"})

    result = clerk(note).execute(call("note", word="x"), session=session, deps="shop", user_id="u", conversation_id="c")

    assert result.content == "shop u c"
    assert dict(session) == {"customer": "ada", "word": "x"}


def test_max_parallel_is_one_with_the_runs_of_the_system() -> None:
    gate, inside = Gate(), list[str]()

    @us.tool(max_parallel=1)
    def only(who: str) -> str:
        inside.append(who)
        if who == "run":
            gate()
        return who

    agent = us.Agent("clerk", model=ScriptedModel([calls("only", who="run"), says("Done.")]), tools=[only])
    with us.ActorSystem("shop") as system:
        handle = agent.submit("Go", system=system)
        assert gate.entered.wait(WAIT)
        done = list[us.ToolResult]()
        worker = threading.Thread(target=lambda: done.append(agent.execute(call("only", who="hand"), system=system)))
        worker.start()
        eventually(lambda: system.in_flight == 2, "both are under way")
        assert inside == ["run"]
        gate.open()
        worker.join(WAIT)
        handle.result(WAIT)

    assert (inside, [result.content for result in done]) == (["run", "hand"], ["hand"])


def test_a_tool_of_the_callers_thread_runs_there() -> None:
    @us.tool(isolation="caller")
    def where() -> int:
        return threading.get_ident()

    assert clerk(where).execute(call("where")).content == str(threading.get_ident())


def test_a_sub_agent_is_a_tool_and_one_that_waits_for_a_person_is_told() -> None:
    writer = us.Agent("writer", model=ScriptedModel([says("A text."), says("__ask_user__: Which?")]))
    agent = us.Agent("clerk", model=ScriptedModel([]), sub_agents=[writer])

    assert agent.execute(call("writer", input="Write")).content == "A text."
    with pytest.raises(us.UnfinishedRun, match="writer"):
        agent.execute(call("writer", input="Write"))


def test_the_time_of_the_whole_call_ends_it() -> None:
    gate = Gate()

    def slow() -> str:
        gate()
        return "late"

    with pytest.raises(us.RunTimedOut):
        clerk(slow).execute(call("slow"), timeout=0.05)
    gate.open()


@pytest.mark.parametrize("made", ["look", None, {"name": "look"}])
def test_what_is_no_call_is_a_type_error(made: Any) -> None:
    with pytest.raises(TypeError, match="execute takes a ToolCall"):
        clerk(look).execute(made)


@pytest.mark.parametrize("options", [{"session": 7}, {"timeout": "1"}, {"system": "shop"}, {"user_id": 7}])
def test_a_wrong_option_is_a_type_error(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        clerk(look).execute(call("look", order=7), **options)


def test_a_question_is_for_a_person() -> None:
    with pytest.raises(ValueError, match="AgentRun.answer"):
        clerk(us.ask_user).execute(call("ask_user", question="Which?"))
