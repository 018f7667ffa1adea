"""Runs that wait for a person or for a higher limit, and go on with a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import understudy as us
from tests.support import process_tools
from tests.support.scripts import finished, needs_approval, needs_input, results_of, scripted
from tests.support.tools import refund
from understudy.actors.pauses import tokens
from understudy.testing import FunctionModel, ScriptedModel, calls, says

EDITED = 'A person changed the arguments of this call to {"order": "7", "cents": 5}\npaid 5 for 7'


def look(order: str) -> str:
    return f"order {order}"


def test_a_run_waits_for_an_approval_and_goes_on_with_it() -> None:
    agent = scripted(calls("refund", order="7", cents=1200), says("Done."), tools=[refund])

    waiting = needs_approval(agent.run("Refund order 7"))
    outcome = finished(agent.resume(waiting.token, us.Approve()))

    assert [(call.name, call.arguments) for call in waiting.calls] == [("refund", {"order": "7", "cents": 1200})]
    assert results_of(outcome)[0].content == "paid 1200 for 7"
    assert (outcome.text, outcome.run_id, outcome.iterations) == ("Done.", waiting.run_id, 1)


def test_calls_that_need_no_approval_run_before_the_run_waits() -> None:
    ran: list[str] = []

    def peek(order: str) -> str:
        ran.append(order)
        return "seen"

    agent = scripted(calls("refund", order="7", cents=1) + calls("peek", order="7"), says("ok"), tools=[refund, peek])

    waiting = needs_approval(agent.run("go"))

    assert ran == ["7"]
    outcome = agent.resume(waiting.token, us.Approve())
    assert [r.content for r in results_of(outcome)] == ["paid 1 for 7", "seen"]
    assert ran == ["7"]  # not done again


@pytest.mark.parametrize(
    ("decision", "kind", "content"),
    [
        (us.Reject("too much"), "rejected", "Rejected: too much"),
        (us.Approve(arguments={"order": "7", "cents": 5}), "", EDITED),
    ],
)
def test_a_decision_may_reject_a_call_or_change_its_arguments(decision: us.Decision, kind: str, content: str) -> None:
    agent = scripted(calls("refund", order="7", cents=1200), says("ok"), tools=[refund])

    (result,) = results_of(agent.resume(needs_approval(agent.run("go")).token, decision))

    assert (result.error_kind, result.content) == (kind, content)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"order": "7", "cents": 5, "nope": 1}, "argument 'nope'"),
        ({"order": "7"}, "argument 'cents': field required"),
        ({"order": "7", "cents": "much"}, "argument 'cents': input should be a valid integer"),
    ],
)
@pytest.mark.parametrize("by_id", [False, True])
def test_an_approval_with_arguments_that_do_not_fit_is_refused_and_the_token_stands(
    arguments: dict[str, us.JsonValue], why: str, *, by_id: bool
) -> None:
    agent = scripted(calls("refund", order="7", cents=1200), says("ok"), tools=[refund])
    waiting = needs_approval(agent.run("go"))
    slip = us.Approve(arguments=arguments)

    with pytest.raises(ValueError, match=why):
        agent.resume(waiting.token, {waiting.calls[0].id: slip} if by_id else slip)

    outcome = finished(agent.resume(waiting.token, us.Approve(arguments={"order": "7", "cents": 5})))
    assert results_of(outcome)[0].content == EDITED


def test_arguments_for_a_tool_in_a_process_are_checked_by_name() -> None:
    agent = scripted(calls("place", order={}), tools=[process_tools.place.replace(approval=True)])
    waiting = needs_approval(agent.run("go"))

    with pytest.raises(ValueError, match="argument 'order': field required; argument 'orders': there is none"):
        agent.resume(waiting.token, us.Approve(arguments={"orders": 2}))


def test_an_approval_rule_sees_the_call_and_its_run() -> None:
    def over_a_hundred(call: us.ToolCall, context: us.RunContext) -> bool:
        return context.user_id == "ada" and int(str(call.arguments["cents"])) > 100

    @us.tool(approval=over_a_hundred)
    def pay(cents: int) -> str:
        return f"paid {cents}"

    agent = scripted(calls("pay", cents=50) + calls("pay", cents=500), says("ok"), tools=[pay])

    waiting = needs_approval(agent.run("go", user_id="ada"))

    assert [call.arguments for call in waiting.calls] == [{"cents": 500}]


async def agrees(call: us.ToolCall, context: us.RunContext) -> bool:
    return False


def fails(call: us.ToolCall, context: us.RunContext) -> bool:
    raise LookupError("no such shop")


def leaves(call: us.ToolCall, context: us.RunContext) -> bool:
    raise SystemExit(3)


def is_closed(call: us.ToolCall, context: us.RunContext) -> bool:
    raise GeneratorExit


class Disguised:
    """Fails whoever asks for its class, as a proxy whose object is gone does."""

    @property
    def __class__(self) -> type:
        raise RuntimeError("gone")

    @__class__.setter
    def __class__(self, _: object) -> None: ...


NO_VERDICTS: list[tuple[Callable[[us.ToolCall, us.RunContext], Any], str]] = [
    (lambda call, context: None, "must return True or False, got None"),
    (lambda call, context: 0, "must return True or False, got a value of type int"),
    (lambda call, context: "no", "must return True or False, got a value of type str"),
    (agrees, "must return True or False, got a coroutine; write a plain function, not async def"),
    (fails, "raised LookupError: no such shop"),
    (leaves, "raised SystemExit: 3"),
    (is_closed, "raised GeneratorExit"),
    (lambda call, context: Disguised(), "must return True or False, got a value of type Disguised"),
]


# A coroutine that nobody awaits is told by these two; other warnings may be of what earlier tests have left.
@pytest.mark.filterwarnings("error::RuntimeWarning", "error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("rule", "why"),
    NO_VERDICTS,
)
def test_an_approval_rule_that_says_neither_yes_nor_no_never_runs_the_tool(rule: Any, why: str) -> None:
    ran: list[int] = []

    @us.tool(approval=rule)
    def pay(cents: int) -> str:
        ran.append(cents)
        return "paid"

    agent = scripted(calls("pay", cents=50) + calls("look", order="7"), says("ok"), tools=[pay, look])

    refused, looked = results_of(finished(agent.run("go")))

    assert ran == []
    assert (refused.error_kind, refused.content) == ("blocked", f"Not run: the approval rule of tool 'pay' {why}")
    assert looked.content == "order 7"


def test_a_question_to_a_person_waits_for_the_answer() -> None:
    agent = scripted(says("__ask_user__: Which shop?"), says("Main it is."))

    waiting = needs_input(agent.run("go"))
    outcome = finished(agent.resume(waiting.token, "main"))

    assert waiting.question == "Which shop?"
    assert [message.text for message in outcome.messages][-2:] == ["main", "Main it is."]
    with pytest.raises(us.UnfinishedRun, match="Which shop"):
        _ = waiting.text


def test_a_limit_carries_a_token_and_a_raised_limit_goes_on() -> None:
    agent = scripted(*[calls("look", order="7")] * 3, says("ok"), tools=[look], max_iterations=2)

    with pytest.raises(us.MaxIterationsExceeded) as caught:
        agent.run("go")
    outcome = finished(agent.resume(caught.value.token, max_iterations=5))

    assert caught.value.limit == 2
    assert outcome.iterations == 3


def test_a_limit_that_is_not_raised_is_reached_again_with_a_new_token() -> None:
    agent = scripted(*[calls("look", order="7")] * 2, says("ok"), tools=[look], max_iterations=1)

    with pytest.raises(us.MaxIterationsExceeded) as first:
        agent.run("go")
    with pytest.raises(us.MaxIterationsExceeded) as second:
        agent.resume(first.value.token)

    assert second.value.token not in ("", first.value.token)


def test_a_token_works_once() -> None:
    agent = scripted(calls("refund", order="7", cents=1), says("ok"), tools=[refund])
    token = needs_approval(agent.run("go")).token
    agent.resume(token, us.Approve())

    with pytest.raises(us.TokenUsed):
        agent.resume(token, us.Approve())


def test_an_outcome_given_as_a_token_is_refused_without_what_was_said() -> None:
    agent = us.Agent("clerk", model=ScriptedModel([calls("ask_user", question="Secret?")]), tools=[us.ask_user])
    paused = agent.run("private")

    with pytest.raises(TypeError) as caught:
        agent.resume(paused, "Ada")  # type: ignore[arg-type]  # pyright: ignore

    assert str(caught.value) == "a token is a string, got a value of type NeedsInput; pass its .token"


def test_a_token_nobody_issued_is_unknown() -> None:
    with pytest.raises(us.UnknownToken, match="token"):
        scripted().resume("run-1.nonsense", "hi")


@pytest.mark.parametrize(
    ("answer", "options", "error", "words"),
    [
        ("yes", {}, us.AnswerRefused, ""),
        (None, {}, us.AnswerMissing, ""),
        (7, {}, us.AnswerRefused, ""),
        ({"call-1-0": "yes"}, {}, us.AnswerRefused, ""),
        ({"nobody": us.Approve()}, {}, us.ProtocolViolation, "nobody"),
        (us.Approve(), {"max_iterations": 1}, ValueError, "max_iterations can only be raised"),
    ],
)
def test_an_answer_of_the_wrong_kind_is_refused_and_the_token_stands(
    answer: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    agent = scripted(calls("refund", order="7", cents=1), says("ok"), tools=[refund])
    token = needs_approval(agent.run("go")).token

    with pytest.raises(error, match=words or None):
        agent.resume(token, answer, **options)
    with pytest.raises(ValueError, match="belongs to 'clerk'"):
        agent.replace(id="other").resume(token, us.Approve())

    assert finished(agent.resume(token, us.Approve())).text == "ok"


def test_an_id_that_a_front_end_was_sent_is_not_quoted_for_it_holds_the_token() -> None:
    agent = scripted(calls("refund", order="7", cents=1), says("ok"), tools=[refund])
    token = needs_approval(agent.run("go")).token

    with pytest.raises(us.ProtocolViolation, match="nothing waits under the id of a front end") as caught:
        agent.resume(token, {f"{token}/1/approval/call/call-1-0": us.Approve()})

    assert token not in str(caught.value)


def test_a_session_goes_on_where_the_run_paused() -> None:
    def write(ctx: us.ToolContext, word: str) -> str:
        before = ctx.session.get("word")
        ctx.session["word"] = word
        return str(before)

    session = us.SessionState()
    agent = scripted(
        calls("write", word="a"), says("__ask_user__: go on?"), calls("write", word="b"), says("ok"), tools=[write]
    )

    waiting = needs_input(agent.run("go", session=session))
    assert session["word"] == "a"
    outcome = agent.resume(waiting.token, "yes")

    assert [r.content for r in results_of(outcome)] == ["None", "a"]
    assert session["word"] == "b"


def test_deps_are_given_again_on_resume() -> None:
    def whose(ctx: us.ToolContext[str]) -> str:
        return str(ctx.deps)

    agent = scripted(says("__ask_user__: go on?"), calls("whose"), says("ok"), tools=[whose])

    waiting = needs_input(agent.run("go", deps="first"))

    assert results_of(agent.resume(waiting.token, "yes", deps="second"))[0].content == "second"


@pytest.mark.parametrize("tried", [False, True], ids=["untouched", "not raised"])
def test_of_many_runs_at_a_limit_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch, tried: bool) -> None:
    monkeypatch.setattr(tokens, "KEPT", 2)
    agent = scripted(*[calls("look", order="7")] * 6, says("ok"), tools=[look], max_iterations=1)
    limits: list[str] = []
    with us.ActorSystem("shop") as system:  # the default one has the limits of other tests
        for _ in range(3):
            with pytest.raises(us.MaxIterationsExceeded) as caught:
                agent.run("go", system=system)
            limits.append(caught.value.token)
            if tried:
                with pytest.raises(ValueError, match="can only be raised"):
                    agent.resume(limits[-1], max_iterations=0, system=system)

        with pytest.raises(us.UnknownToken, match="was dropped: .* the last 2 that ended with an error"):
            agent.resume(limits[0], max_iterations=2, system=system)
        assert finished(agent.resume(limits[2], max_iterations=2, system=system)).text == "ok"


@pytest.mark.parametrize("tried", [False, True], ids=["untouched", "not answered"])
def test_of_many_runs_that_wait_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch, tried: bool) -> None:
    monkeypatch.setattr(tokens, "KEPT", 2)
    model = FunctionModel(lambda request: says("ok") if request.tool_results else calls("refund", order="7", cents=1))
    agent = us.Agent("clerk", model=model, tools=[refund])
    with us.ActorSystem("shop") as system:
        waiting: list[str] = []
        for _ in range(4):
            waiting.append(needs_approval(agent.run("go", system=system)).token)
            if tried:
                with pytest.raises(TypeError):
                    agent.resume(waiting[-1], "yes", system=system)
        agent.resume(waiting[2], us.Approve(), system=system)
        waiting.append(needs_approval(agent.run("go", system=system)).token)

        for token in waiting[:2]:
            with pytest.raises(us.UnknownToken, match="was dropped: without a store, a system keeps the last 2 runs"):
                agent.resume(token, us.Approve(), system=system)
        with pytest.raises(us.TokenUsed):
            agent.resume(waiting[2], us.Approve(), system=system)
        assert [run.token for run in system.pending()] == waiting[3:]
        assert finished(agent.resume(waiting[3], us.Approve(), system=system)).text == "ok"


def test_a_model_asks_a_person_with_a_tool_and_reads_the_answer() -> None:
    model = ScriptedModel([calls("ask_user", question="Which order?"), says("Order 7 it is.")])
    agent = us.Agent("clerk", model=model, tools=[us.ask_user])

    waiting = needs_input(agent.run("Refund my order"))
    outcome = finished(agent.resume(waiting.token, "7"))

    assert waiting.question == "Which order?"
    assert model.requests[1].tool_results[0].content == "7"
    assert outcome.text == "Order 7 it is."


def test_a_hundred_calls_wait_at_once_and_each_runs_once() -> None:
    paid: list[str] = []

    @us.tool(approval=True)
    def pay(order: str) -> str:
        paid.append(order)
        return f"paid {order}"

    orders = [str(number) for number in range(100)]
    many = [calls("pay", order=order) for order in orders]
    agent = scripted(sum(many[1:], many[0]), says("Done."), tools=[pay])

    waiting = needs_approval(agent.run("go"))
    some = {call.id: us.Approve() for call in waiting.calls[::2]}
    rest = needs_approval(agent.resume(waiting.token, some))
    outcome = finished(agent.resume(rest.token, us.Approve()))

    assert (len(waiting.calls), len(rest.calls)) == (100, 50)
    assert sorted(paid, key=int) == orders
    assert [result.content for result in results_of(outcome)] == [f"paid {order}" for order in orders]
