"""What a run waits for a person for: questions, approvals, and the pauses of runs inside of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from tests.support.machines import asks, call, gives, make_spec, model_step, reloaded, run_of, tool_ids
from understudy.errors import ProtocolViolation
from understudy.orchestration import AgentRun, AwaitApproval, AwaitInput, CallTools
from understudy.orchestration.agent.pauses import sort_answers
from understudy.vocabulary.messages import JsonValue, ToolCall, ToolResult
from understudy.vocabulary.runs.outcomes import Approve, Pause, PauseAnswer, Reject

SPEC = replace(
    make_spec("look", "refund", "ask_user", "researcher", approvals={"refund": True}), asks=frozenset({"ask_user"})
)
CHILD_CALL = call("x", "pay")
CHILD_ASKS = Pause(id="question", path=("researcher",), question="Which year?")
CHILD_WAITS = Pause(id="approval", path=("researcher",), calls=(CHILD_CALL,))


def question(id: str, text: JsonValue) -> ToolCall:
    return ToolCall(id, "ask_user", {"question": text})


def with_child(*pauses: Pause) -> AgentRun:
    run = run_of(SPEC, [asks(call("a", "researcher"))])
    run.next_step()
    run.child_paused("a", "SAVED", pauses)
    return run


def test_a_question_of_the_model_waits_for_a_person_and_the_answer_is_the_calls_result() -> None:
    run = run_of(SPEC, [asks(question("q", " Which shop? "))])

    assert run.next_step() == AwaitInput("Which shop?")
    run.answer("The one in Bern")

    assert model_step(run).request.tool_results == (ToolResult("q", "The one in Bern", name="ask_user"),)


def test_other_calls_of_the_turn_run_before_a_person_is_asked() -> None:
    run = run_of(SPEC, [asks(question("q", "Which?"), call("b"))])

    assert run.next_step() == CallTools((call("b"),))
    run.tool_results([gives("b")])

    assert run.next_step() == AwaitInput("Which?")


@pytest.mark.parametrize("text", [None, 3, "", "  "])
def test_a_call_that_asks_nothing_is_answered_with_what_is_wrong_and_nobody_is_asked(text: JsonValue) -> None:
    run = run_of(SPEC, [asks(question("q", text))])

    (result,) = model_step(run).request.tool_results

    assert (result.is_error, result.error_kind) == (True, "bad_arguments")


def test_all_that_waits_is_told_at_once_and_may_be_answered_in_any_order() -> None:
    run = run_of(SPEC, [asks(question("q", "Which?"), call("a", "refund"), question("r", "When?"))])
    run.next_step()

    assert run.pauses == (
        Pause(id="approval", path=("clerk",), calls=(call("a", "refund"),)),
        Pause(id="question/q", path=("clerk",), question="Which?"),
        Pause(id="question/r", path=("clerk",), question="When?"),
    )
    run.respond({"question/r": "Now"})
    run.respond({"approval": Reject("no"), "question/q": "This"})

    results = model_step(run).request.tool_results
    assert [result.content for result in results] == ["This", "Rejected: no", "Now"]


def test_an_answer_without_an_id_is_for_the_question_that_was_shown() -> None:
    run = run_of(SPEC, [asks(question("q", "Which?"), question("r", "When?"))])

    assert run.next_step() == AwaitInput("Which?")
    run.answer("This")
    assert run.next_step() == AwaitInput("When?")
    run.answer("Now")

    assert [result.content for result in model_step(run).request.tool_results] == ["This", "Now"]


def test_a_childs_pause_is_a_pause_of_the_run_with_the_way_to_it() -> None:
    run = with_child(CHILD_ASKS, CHILD_WAITS)

    assert run.pauses == (
        Pause(id="child/a/question", path=("clerk", "researcher"), question="Which year?"),
        Pause(id="child/a/approval", path=("clerk", "researcher"), calls=(CHILD_CALL,)),
    )
    assert run.next_step() == AwaitInput("Which year?")


def test_a_child_goes_on_with_the_answers_to_some_of_its_pauses() -> None:
    run = with_child(CHILD_ASKS, CHILD_WAITS)

    run.respond({"child/a/approval": {"x": Approve()}})

    assert run.next_step() == CallTools((call("a", "researcher"),))
    child = run.child("a")
    assert child is not None
    assert (child.saved, child.answers) == ("SAVED", {"approval": {"x": Approve()}})


def test_a_child_that_pauses_again_waits_again_with_what_it_waits_for_now() -> None:
    run = with_child(CHILD_ASKS)
    run.answer("1999")
    run.next_step()

    run.child_paused("a", "LATER", [CHILD_WAITS])

    assert run.next_step() == AwaitApproval((CHILD_CALL,))
    child = run.child("a")
    assert child is not None
    assert (child.saved, child.answers) == ("LATER", {})


def test_a_childs_result_ends_the_call_and_the_child_is_forgotten() -> None:
    run = with_child(CHILD_WAITS)
    run.next_step()
    run.decisions({"x": Approve()})
    run.next_step()

    run.tool_results([gives("a", name="researcher")])

    assert run.child("a") is None
    assert model_step(run).request.tool_results == (gives("a", name="researcher"),)


def test_two_children_are_answered_one_after_the_other_in_either_order() -> None:
    run = run_of(SPEC, [asks(call("a", "researcher"), call("b", "researcher"))])
    run.next_step()
    run.child_paused("b", "B", [CHILD_ASKS])
    assert tool_ids(run) == ["a"]
    run.child_paused("a", "A", [CHILD_ASKS])

    assert [pause.id for pause in run.pauses] == ["child/a/question", "child/b/question"]
    run.respond({"child/b/question": "1999"})
    assert tool_ids(run) == ["b"]
    run.tool_results([gives("b", name="researcher")])

    assert [pause.id for pause in run.pauses] == ["child/a/question"]


def test_a_paused_run_is_the_same_after_it_was_saved_and_loaded() -> None:
    run = run_of(SPEC, [asks(question("q", "Which?"), call("a", "researcher"), call("b", "researcher"))])
    run.next_step()
    run.child_paused("a", "A", [CHILD_ASKS, CHILD_WAITS])
    run.child_paused("b", "B", [CHILD_WAITS])
    run.respond({"child/a/approval": {"x": Approve({"cents": 1})}, "child/a/question": "1999"})

    again = reloaded(run)

    assert again.pauses == run.pauses
    assert again.child("a") == run.child("a")
    assert again.next_step() == run.next_step()


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({}, ProtocolViolation),
        ({"question": "1999"}, ProtocolViolation),
        ({"child/a/approval": {"y": Approve()}}, ProtocolViolation),
        ({"child/a/approval": {}}, ProtocolViolation),
        ({"child/a/approval": "yes"}, TypeError),
        ({"child/a/approval": {"x": True}}, TypeError),
        ({"child/a/question": Approve()}, TypeError),
        ({"child/a/question": "1999", "child/a/approval": True}, TypeError),
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing(answers: object, error: type[Exception]) -> None:
    run = with_child(CHILD_ASKS, CHILD_WAITS)
    before = run.to_json()

    with pytest.raises(error):
        run.respond(cast("Mapping[str, PauseAnswer]", answers))

    assert run.to_json() == before


def test_only_a_pending_call_can_have_a_child_that_waits_for_something() -> None:
    run = with_child(CHILD_ASKS)

    with pytest.raises(ProtocolViolation, match="pending: none"):
        run.child_paused("a", "SAVED", [CHILD_ASKS])
    with pytest.raises(ProtocolViolation, match="a child's pause came out of order"):
        run_of(SPEC, []).child_paused("a", "SAVED", [CHILD_ASKS])


ONE = Pause(id="approval", calls=(call("a"), call("b")))
OTHER = Pause(id="child/c/approval", calls=(call("a"), call("d")))
ASKS = Pause(id="question", question="Which?")


@pytest.mark.parametrize(
    ("pauses", "answer", "sorted_"),
    [
        ([ASKS], "This", {"question": "This"}),
        ([ONE, ASKS], "This", {"question": "This"}),
        ([ONE, ASKS, OTHER], Approve(), {"approval": Approve(), "child/c/approval": Approve()}),
        (
            [ONE, OTHER],
            {"b": Approve(), "d": Reject()},
            {"approval": {"b": Approve()}, "child/c/approval": {"d": Reject()}},
        ),
        ([ONE, OTHER], {"approval": {"a": Reject()}}, {"approval": {"a": Reject()}}),
        ([ONE, ASKS], {"question": "This", "b": Reject()}, {"question": "This", "approval": {"b": Reject()}}),
    ],
)
def test_each_pause_gets_its_part_of_an_answer(pauses: list[Pause], answer: PauseAnswer, sorted_: object) -> None:
    assert sort_answers(pauses, answer) == sorted_


@pytest.mark.parametrize(
    ("pauses", "answer", "error", "says"),
    [
        ([ONE], "yes", TypeError, r"decisions about a, b: pass Approve\(\) or Reject"),
        ([ASKS], Approve(), TypeError, "an answer to 'Which\\?': pass a string"),
        ([ASKS, Pause(id="question/q", question="When?")], "This", TypeError, "got a text, and 2 questions were asked"),
        ([ONE, OTHER], {"a": Approve()}, ProtocolViolation, "several pauses have a call 'a'"),
        ([ONE], {"z": Approve()}, ProtocolViolation, "nothing waits under the id 'z'.*pauses: approval"),
        ([ONE], {"approval": Approve(), "a": Reject()}, ProtocolViolation, "answered twice"),
        ([ONE], None, TypeError, "it waits for decisions"),
        ([ONE], 3, TypeError, "got 3"),
    ],
)
def test_an_answer_that_fits_no_pause_or_several_says_what_is_waited_for(
    pauses: list[Pause], answer: object, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        sort_answers(pauses, cast(PauseAnswer, answer))


def test_calls_in_doubt_that_have_one_id_in_two_pauses_are_told_with_the_pause() -> None:
    calls = (ToolCall("c0", "pay"),)
    pauses = [Pause(id=f"child/{at}/approval", calls=calls, in_doubt=("c0",)) for at in (0, 1)]
    told = "pass {'child/0/approval': {'c0': Approve()}} to make a call again"

    for answer in (Approve(), {"c0": Approve()}):
        with pytest.raises((TypeError, ProtocolViolation), match=re.escape(told)):
            sort_answers(pauses, answer)
    assert sort_answers(pauses, {"child/0/approval": {"c0": Approve()}}) == {"child/0/approval": {"c0": Approve()}}
    with pytest.raises(TypeError, match=re.escape("pass {'c0': Approve()} to make")):
        sort_answers(pauses[:1], Approve())
