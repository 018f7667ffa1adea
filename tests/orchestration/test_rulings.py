"""What callbacks' decisions do to a run, fed to the machine as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from tests.support.machines import (
    answers,
    asked,
    asks,
    call,
    completed,
    gives,
    make_spec,
    messages_of,
    model_step,
    reloaded,
    said,
    tool_ids,
    waiting_ids,
)
from understudy.errors import CallbackAbort, MaxIterationsExceeded, ProtocolViolation, ToolError
from understudy.orchestration import AgentRun, AwaitInput, RetryTurn, Ruling, RunSpec
from understudy.orchestration.agent.turns import PEER_NOT_RUN
from understudy.vocabulary.messages import TextPart, ToolErrorKind, ToolResult, says
from understudy.vocabulary.runs.callbacks import (
    Abort,
    Block,
    CallbackAction,
    Continue,
    OverrideResponse,
    RequireApproval,
    RetryWithFeedback,
    RewriteArguments,
    RewriteResult,
    Skip,
)
from understudy.vocabulary.runs.outcomes import Approve, Pause, Reject

WATCHED = replace(make_spec("look", "find"), watched=True)


def ruled(action: CallbackAction) -> Ruling:
    return Ruling("Guard", action)


def fails(id: str, kind: ToolErrorKind, content: str, name: str = "look") -> ToolResult:
    return ToolResult(id, content, is_error=True, error_kind=kind, name=name)


def begun(*ids: str, spec: RunSpec = WATCHED) -> AgentRun:
    """Begin a run whose first turn makes calls of these ids."""
    run = AgentRun(spec, "Hi")
    model_step(run)
    run.model_response(asks(*[call(id) for id in ids]))
    return run


# --- a turn


def test_a_model_that_is_rejected_for_ever_does_not_run_for_ever() -> None:
    run = AgentRun(replace(make_spec(), max_rejections=2), "Hi")
    for _ in range(2):
        model_step(run)
        run.turn_ruled(says("Fool."), ruled(RetryWithFeedback("Be kind.")))
        run = reloaded(run)

    run.turn_ruled(says("Fool."), ruled(RetryWithFeedback("Be kind.")))

    with pytest.raises(CallbackAbort, match="'Guard' rejected 3 turns in a row, the last one with: Be kind") as caught:
        run.next_step()
    assert caught.value.callback == "Guard"
    assert messages_of(run) == [asked("Hi"), asked("Be kind."), asked("Be kind.")]


def test_only_rejections_in_a_row_are_counted() -> None:
    run = AgentRun(replace(make_spec("look"), max_rejections=1), "Hi")
    for number in range(3):
        run.turn_ruled(says("Fool."), ruled(RetryWithFeedback("Be kind.")))
        run.model_response(asks(call(f"c{number}")))
        assert tool_ids(run) == [f"c{number}"]
        run.tool_results([gives(f"c{number}")])

    assert model_step(run).request.turn == 7


@pytest.mark.parametrize(
    "action", [Continue(), Block("No."), Skip("No."), RewriteResult("No."), RequireApproval(), RewriteArguments({})]
)
def test_a_decision_that_is_none_about_a_turn_is_refused_and_changes_nothing(action: CallbackAction) -> None:
    run = AgentRun(WATCHED, "Hi")
    before = run.to_json()

    with pytest.raises(ProtocolViolation, match="does nothing to a turn"):
        run.turn_ruled(says("Hello."), ruled(action))

    assert run.to_json() == before
    run.model_response(says("Hello."))
    assert completed(run).text == "Hello."


def test_a_turn_that_is_not_due_cannot_be_ruled_on() -> None:
    run = begun("a")
    before = run.to_json()

    with pytest.raises(ProtocolViolation):
        run.turn_ruled(says("Hello."), ruled(OverrideResponse("No.")))

    assert run.to_json() == before


# --- calls


@pytest.mark.parametrize(("rule", "verdict"), [(True, None), (None, True), (None, None)])
def test_a_rewritten_call_is_still_one_that_a_person_must_approve(rule: bool | None, verdict: bool | None) -> None:
    run = begun("a", spec=replace(make_spec("look", approvals={"look": rule}), watched=True))

    run.guard({"a": ruled(RewriteArguments({"sku": "B"}))}, approvals={} if verdict is None else {"a": verdict})

    assert waiting_ids(run) == ["a"]
    assert run.pauses[0].calls == (call("a", sku="B"),)


def test_what_a_person_approved_does_not_run_with_other_arguments_without_asking_again() -> None:
    run = begun("a", spec=replace(make_spec("look", approvals={"look": True}), watched=True))
    run.guard({})
    assert waiting_ids(run) == ["a"]
    run.decisions({"a": Approve({"sku": "A"})})

    run.guard({"a": ruled(RewriteArguments({"sku": "B"}))})

    assert waiting_ids(run) == ["a"]
    assert run.pauses[0].calls == (call("a", sku="B"),)
    run.decisions({"a": Approve()})
    run.guard({"a": ruled(RewriteArguments({"sku": "B"}))})
    assert tool_ids(run) == ["a"]


def test_the_rule_of_a_tool_judges_a_rewritten_call_anew() -> None:
    spec = replace(make_spec("look", approvals={"look": None}), watched=True)
    run, other = begun("a", spec=spec), AgentRun(spec, "Hi")
    other.model_response(asks(call("a")), approvals={0: False})

    run.guard({"a": ruled(RewriteArguments({"sku": "B"}))}, approvals={"a": False})
    other.guard({"a": ruled(RewriteArguments({"sku": "B"}))}, approvals={"a": True})

    assert tool_ids(run) == ["a"]
    assert waiting_ids(other) == ["a"]


def test_a_rewritten_call_about_which_the_rule_of_its_tool_has_no_verdict_does_not_run() -> None:
    run = begun("a", spec=replace(make_spec("look", approvals={"look": None}), watched=True))

    with pytest.raises(TypeError, match="expected True, False, or a text"):
        run.guard({"a": ruled(RewriteArguments({}))}, approvals={"a": cast(bool, None)})
    run.guard({"a": ruled(RewriteArguments({"sku": "B"}))}, approvals={"a": "Not run: the rule is broken"})

    assert [(result.error_kind, result.content) for _, result in run.unreviewed()] == [
        ("blocked", "Not run: the rule is broken")
    ]


def test_a_call_can_be_made_to_wait_for_a_person_who_reads_why() -> None:
    run = begun("a", "b")

    run.guard({"a": ruled(RequireApproval("It is much money."))})

    assert tool_ids(run) == ["b"]
    run.tool_results([gives("b")])
    assert run.pauses == (
        Pause(id="approval", path=("clerk",), calls=(call("a"),), reasons={"a": "It is much money."}),
    )
    assert reloaded(run).pauses == run.pauses


def test_a_call_that_was_approved_and_edited_can_still_be_blocked() -> None:
    run = begun("a", spec=replace(make_spec("look", approvals={"look": True}), watched=True))
    run.guard({})
    assert waiting_ids(run) == ["a"]
    run.decisions({"a": Approve({"sku": "all"})})

    run.guard({"a": ruled(Block("Not all."))})

    words = 'A person changed the arguments of this call to {"sku": "all"}\nBlocked: Not all.'
    assert model_step(run).request.tool_results == (fails("a", "blocked", words),)


def test_a_question_to_a_person_is_not_also_put_up_for_approval() -> None:
    spec = replace(make_spec("ask_user"), asks=frozenset(["ask_user"]), watched=True)
    run = AgentRun(spec, "Hi")
    run.model_response(asks(call("a", "ask_user", question="Which?")))

    run.guard({"a": ruled(RequireApproval())})

    assert run.next_step() == AwaitInput("Which?")
    assert len(run.pauses) == 1


def test_a_question_can_be_rewritten_and_blocked() -> None:
    spec = replace(make_spec("ask_user"), asks=frozenset(["ask_user"]), watched=True)
    run, other = AgentRun(spec, "Hi"), AgentRun(spec, "Hi")
    for each in (run, other):
        each.model_response(asks(call("a", "ask_user", question="Your PIN?")))

    run.guard({"a": ruled(RewriteArguments({"question": "Your name?"}))})
    other.guard({"a": ruled(Block("Do not ask for that."))})

    assert run.next_step() == AwaitInput("Your name?")
    assert model_step(other).request.tool_results[0].error_kind == "blocked"


def test_an_abort_answers_every_call_and_the_first_in_call_order_counts() -> None:
    run = begun("a", "b", "c")

    run.guard({"c": Ruling("Other", Abort("Later.")), "b": ruled(Abort("Enough.")), "a": ruled(Skip("7"))})

    for again in (run, reloaded(run)):
        with pytest.raises(CallbackAbort, match="Enough") as caught:
            again.next_step()
        assert caught.value.callback == "Guard"
    why = "Not run: a callback ended the run."
    assert messages_of(run)[-1] == answers(
        ToolResult("a", "7", error_kind="skipped", name="look"), fails("b", "not_run", why), fails("c", "not_run", why)
    )


@pytest.mark.parametrize(
    ("rulings", "message"),
    [
        ({"z": ruled(Block("No."))}, "about 'z', which is no call to rule on"),
        ({"a": ruled(RetryWithFeedback("No."))}, "does nothing to a call"),
        ({"b": ruled(Skip("7")), "a": ruled(RewriteResult("No."))}, "does nothing to a call"),
    ],
)
def test_rulings_that_do_not_fit_calls_are_refused_and_change_nothing(rulings: dict[str, Ruling], message: str) -> None:
    run = begun("a", "b")
    before = run.to_json()

    with pytest.raises(ProtocolViolation, match=message):
        run.guard(rulings)

    assert run.to_json() == before


def test_a_call_is_not_guarded_twice() -> None:
    run = begun("a")
    run.guard({})

    with pytest.raises(ProtocolViolation, match="no call to rule on"):
        run.guard({"a": ruled(Block("Too late."))})

    assert tool_ids(run) == ["a"]


# --- results


def test_results_are_reviewed_in_call_order_once_nothing_is_to_run_and_before_they_are_in_the_history() -> None:
    run = AgentRun(WATCHED, "Hi")
    run.model_response(asks(call("a"), call("b", "lok"), call("c"), call("d")))
    run.guard({"c": ruled(Block("No."))})
    unknown = "there is no tool 'lok' (did you mean 'look'?); the tools are: find, look"
    assert tool_ids(run) == ["a", "d"]
    assert run.unreviewed() == ()
    run.tool_results([gives("d")])
    assert run.unreviewed() == ()
    run.tool_results([gives("a")])

    assert run.unreviewed() == (
        (call("a"), gives("a")),
        (call("b", "lok"), fails("b", "unknown_tool", unknown, "lok")),
        (call("c"), fails("c", "blocked", "Blocked: No.")),
        (call("d"), gives("d")),
    )
    assert messages_of(run)[-1].role == "assistant"

    run.review({"a": ruled(RewriteResult("***"))})

    assert run.unreviewed() == ()
    assert [r.content for r in model_step(run).request.tool_results] == ["***", unknown, "Blocked: No.", "result of d"]


def test_a_rejected_call_is_reviewed_too_and_none_twice() -> None:
    run = begun("a", "b")
    run.guard({"a": ruled(RequireApproval())})
    tool_ids(run)
    run.tool_results([gives("b")])
    assert [c.id for c, _ in run.unreviewed()] == ["b"]
    run.review({})
    assert waiting_ids(run) == ["a"]

    run = reloaded(run)
    run.decisions({"a": Reject("No.")})

    assert run.unreviewed() == ((call("a"), fails("a", "rejected", "Rejected: No.")),)
    run.review({})
    assert len(model_step(run).request.tool_results) == 2


def test_the_results_of_a_turn_that_is_tried_again_are_reviewed_and_cost_no_round() -> None:
    run = AgentRun(WATCHED, "Hi")

    run.model_response(asks(call("a"), call("b", "lok")), resolutions={1: RetryTurn("Spell it right.")})

    assert [r for _, r in run.unreviewed()] == [
        fails("a", "not_run", PEER_NOT_RUN),
        fails("b", "unknown_tool", "Spell it right.", "lok"),
    ]
    assert run.unguarded() == ()
    run.review({})
    assert len(model_step(run).request.tool_results) == 2
    assert run.state.iterations == 0


def test_results_that_nobody_reviews_reach_the_model_all_the_same() -> None:
    run = begun("a")
    assert tool_ids(run) == ["a"]

    run.tool_results([gives("a")])

    assert model_step(run).request.tool_results == (gives("a"),)


def test_a_tool_error_ends_a_watched_run_also_if_nobody_reviews_it() -> None:
    run = begun("a", "b", spec=replace(WATCHED, on_tool_error="raise"))
    tool_ids(run)

    run.tool_results([fails("a", "raised", "no such shelf"), gives("b")])

    for again in (reloaded(run), run):
        with pytest.raises(ToolError, match="no such shelf"):
            again.next_step()


@pytest.mark.parametrize("action", [Block("No."), RetryWithFeedback("No."), Skip("No."), RequireApproval()])
def test_a_decision_that_is_none_about_a_result_is_refused_and_changes_nothing(action: CallbackAction) -> None:
    run = begun("a")
    tool_ids(run)
    run.tool_results([gives("a")])
    before = run.to_json()

    with pytest.raises(ProtocolViolation, match="does nothing to a result"):
        run.review({"a": ruled(action)})

    assert run.to_json() == before


# --- the run


def at_model() -> AgentRun:
    run = AgentRun(WATCHED, "Hi")
    model_step(run)
    return run


def at_tools() -> AgentRun:
    run = begun("a", "b")
    tool_ids(run)
    run.tool_results([gives("b")])
    return run


def at_approval() -> AgentRun:
    run = begun("a", spec=replace(make_spec("look", approvals={"look": True}), watched=True))
    waiting_ids(run)
    return run


def at_question() -> AgentRun:
    run = at_model()
    run.model_response(says("__ask_user__: Which?"))
    return run


def at_limit() -> AgentRun:
    run = begun("a", spec=replace(make_spec("look", max_iterations=0), watched=True))
    with pytest.raises(MaxIterationsExceeded):
        run.next_step()
    return run


def incomplete() -> AgentRun:
    run = AgentRun(make_spec(criteria=True, max_continues=0), "Hi")
    run.model_response(says("Hm."))
    return run


def failed() -> AgentRun:
    run = at_model()
    run.turn_ruled(says("Fool."), ruled(Abort("No.")))
    return run


EVERYWHERE = [at_model, at_tools, at_approval, at_question, at_limit, incomplete, failed]


@pytest.mark.parametrize("begin", EVERYWHERE)
def test_a_text_of_a_callbacks_ends_a_run_wherever_it_is(begin: Callable[[], AgentRun]) -> None:
    run = begin()

    run.end_by(ruled(OverrideResponse("Sorry.")))

    for again in (run, reloaded(run)):
        outcome = completed(again)
        assert outcome.text == "Sorry."
        assert outcome.messages[-1].parts[-1] == TextPart("Sorry.")
        assert [m.role for m in outcome.messages[-2:]] == ["user", "assistant"]
        made = [c.id for message in outcome.messages for c in message.tool_calls]
        answered = [r.call_id for message in outcome.messages for r in message.tool_results]
        assert made == answered


@pytest.mark.parametrize("begin", EVERYWHERE)
def test_an_abort_ends_a_run_wherever_it_is(begin: Callable[[], AgentRun]) -> None:
    run = begin()

    run.end_by(ruled(Abort("Enough.")))

    with pytest.raises(CallbackAbort, match=r"^Enough\.$"):
        reloaded(run).next_step()


def test_a_run_that_is_done_stays_as_it_is() -> None:
    run = at_model()
    run.model_response(says("Hello."))

    with pytest.raises(ProtocolViolation):
        run.end_by(ruled(OverrideResponse("Sorry.")))

    assert completed(run).text == "Hello."


def test_an_empty_text_of_a_callbacks_leaves_no_empty_message_behind() -> None:
    run = at_model()

    run.end_by(ruled(OverrideResponse("")))

    assert completed(run).text == ""
    assert messages_of(run) == [asked("Hi")]


def test_a_text_after_a_turn_is_part_of_that_turn() -> None:
    run = incomplete()

    run.end_by(ruled(OverrideResponse(" Sorry.")))

    assert messages_of(run) == [asked("Hi"), said(TextPart("Hm."), TextPart(" Sorry."))]


def test_an_agent_with_callbacks_has_the_fingerprint_it_had_without() -> None:
    assert WATCHED.fingerprint() == make_spec("look", "find").fingerprint()
