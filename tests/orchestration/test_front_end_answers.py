"""What front ends send back to a run that waits for a person."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from understudy.orchestration.front_ends.interrupts import InterruptId, parsed_id
from understudy.testing import ScriptedModel, calls, says
from understudy.vocabulary.messages import JsonValue

REFUND = "t.1/1/approval/call/c1"
QUESTION = "t.1/1/question/question"


def resume(*entries: Any) -> dict[str, JsonValue]:
    return {"threadId": "t", "runId": "r", "resume": list(entries)}


def resolved(id: str, payload: JsonValue) -> dict[str, JsonValue]:
    return {"interruptId": id, "status": "resolved", "payload": payload}


def message(*parts: Any, role: str = "assistant") -> dict[str, JsonValue]:
    return {"id": "m", "role": role, "parts": [{"type": "step-start"}, *parts]}


def responded(id: str, **approval: JsonValue) -> dict[str, JsonValue]:
    return {
        "type": "tool-refund",
        "toolCallId": "c1",
        "state": "approval-responded",
        "approval": {"id": id, **approval},
    }


# --- AG-UI


def test_true_approves() -> None:
    body = resume(resolved(REFUND, {"approved": True}))

    assert us.answers_of(body) == ("t.1", {"approval": {"c1": us.Approve()}})


def test_true_with_arguments_approves_these() -> None:
    body = resume(resolved(REFUND, {"approved": True, "editedArgs": {"cents": 5}}))

    assert us.answers_of(body).answer == {"approval": {"c1": us.Approve({"cents": 5})}}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (resolved(REFUND, {"approved": False, "reason": "too much"}), "too much"),
        (resolved(REFUND, {"approved": False}), ""),
        ({"interruptId": REFUND, "status": "cancelled"}, "cancelled by the user"),
    ],
)
def test_false_and_a_cancelled_interrupt_reject(entry: dict[str, JsonValue], reason: str) -> None:
    assert us.answers_of(resume(entry)).answer == {"approval": {"c1": us.Reject(reason)}}


@pytest.mark.parametrize("payload", ["Order 7", {"answer": "Order 7"}])
def test_a_text_answers_a_question(payload: JsonValue) -> None:
    assert us.answers_of(resume(resolved(QUESTION, payload))) == ("t.1", {"question": "Order 7"})


def test_answers_to_several_pauses_are_sorted() -> None:
    ids = ["t.1/3/approval/call/a", "t.1/3/approval/call/b~1c", "t.1/3/question~1x/question"]
    body = resume(resolved(ids[0], {"approved": True}), resolved(ids[1], {"approved": False}), resolved(ids[2], "blue"))

    decided = {"a": us.Approve(), "b/c": us.Reject()}
    assert us.answers_of(body) == ("t.1", {"approval": decided, "question/x": "blue"})


# --- the AI SDK


def test_a_response_in_the_last_message_decides() -> None:
    body: dict[str, JsonValue] = {"messages": [message(role="user"), message(responded(REFUND, approved=True))]}
    rejected: dict[str, JsonValue] = {"messages": [message(responded(REFUND, approved=False, reason="no"))]}

    assert us.answers_of(body) == ("t.1", {"approval": {"c1": us.Approve()}})
    assert us.answers_of(rejected).answer == {"approval": {"c1": us.Reject("no")}}


def test_a_response_among_model_messages_decides() -> None:
    part: JsonValue = {"type": "tool-approval-response", "approvalId": REFUND, "approved": True}

    assert us.answers_of({"messages": [{"role": "tool", "content": [part]}]}).answer == {
        "approval": {"c1": us.Approve()}
    }


def test_the_users_message_answers_the_open_question() -> None:
    asked = message({"type": "data-question", "id": QUESTION, "data": {"question": "Which order?"}})
    said = message({"type": "text", "text": "Order 7"}, role="user")

    assert us.answers_of({"messages": [asked, said]}) == ("t.1", {"question": "Order 7"})


def test_a_decision_of_an_earlier_step_is_not_taken_again() -> None:
    body: dict[str, JsonValue] = {
        "messages": [
            message(responded(REFUND, approved=True), {"type": "step-start"}, {"type": "text", "text": "Paid."})
        ]
    }

    with pytest.raises(ValueError, match="no answer"):
        us.answers_of(body)


# --- what is no answer


NOT_TRUE: list[JsonValue] = [None, "true", "yes", 1, 1.0, [], [True], {}, {"approved": True}, 0, ""]


@pytest.mark.parametrize("value", NOT_TRUE, ids=repr)
def test_nothing_but_true_approves(value: JsonValue) -> None:
    for body in (
        resume(resolved(REFUND, {"approved": value})),
        {"messages": [message(responded(REFUND, approved=value))]},
    ):
        with pytest.raises(ValueError, match="must be true or false"):
            us.answers_of(body)


BAD: list[tuple[Any, str]] = [
    (None, "must be a JSON object"),
    ([], "must be a JSON object"),
    ({}, "no answer"),
    ({"messages": "hello"}, "no answer"),
    ({"messages": [message({"type": "text", "text": "Hi"}, role="user")]}, "no answer"),
    ({"messages": [message(), message({"type": "text", "text": "Hi"}, role="user")]}, "input of another run"),
    (resume(), "no answer"),
    ({"resume": {}}, "must be a list"),
    (resume("yes"), "must be an object"),
    (REFUND, "must be a JSON object"),
    ({"resume": REFUND}, "must be a list"),
    (resume(REFUND), "must be an object"),
    (resume(resolved("t.1/", {"approved": True})), "no run waits"),
    (resume({"interruptId": REFUND, "status": REFUND}), "status"),
    (resume(resolved(REFUND, {"approved": REFUND})), "must be true or false"),
    ({"messages": [message({"state": "approval-requested", "toolCallId": REFUND})]}, "holds none"),
    (resume({"payload": {"approved": True}}), "interruptId"),
    (resume(resolved("c1", {"approved": True})), "no run waits"),
    (resume(resolved("t.1/0/approval/call/c1", {"approved": True})), "no run waits"),
    (resume(resolved("t.1/01/approval/call/c1", {"approved": True})), "no run waits"),
    (resume(resolved("/1/approval/call/c1", {"approved": True})), "no run waits"),
    (resume(resolved("t.1/1/approval/call/~2", {"approved": True})), "no run waits"),
    (resume(resolved(REFUND, True)), "must be an object with 'approved'"),
    (resume(resolved(REFUND, {"approved": True, "editedArgs": "all"})), "editedArgs must be an object"),
    (resume({"interruptId": REFUND, "status": "done", "payload": {"approved": True}}), "status"),
    (resume({"interruptId": QUESTION, "status": "cancelled"}), "cannot be cancelled"),
    (resume(resolved(QUESTION, "")), "must be a text"),
    (resume(resolved(QUESTION, {"approved": True})), "must be a text"),
    (resume(*[resolved(REFUND, {"approved": True})] * 2), "two answers"),
    (resume(*[resolved(QUESTION, "blue")] * 2), "two answers"),
    (resume(resolved("t.1/2/approval/call/c1", {"approved": True})), "waits for 2 answers"),
    (
        resume(
            resolved("t.1/2/approval/call/a", {"approved": True}), resolved("t.2/2/approval/call/b", {"approved": True})
        ),
        "different pauses",
    ),
    ({"messages": [message(responded(REFUND, approved=True), {"state": "approval-requested"})]}, "holds none"),
    ({"messages": [message(responded(QUESTION, approved=True))]}, "cannot answer a question"),
    ({"messages": [message({"type": "tool-refund", "state": "approval-responded"})]}, "id of an approval"),
]


@pytest.mark.parametrize(("body", "why"), BAD)
def test_a_body_of_another_shape_is_an_error(body: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        us.answers_of(body)

    assert "t.1" not in str(caught.value)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([REFUND, QUESTION, "assistant", "user", "resolved"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["resume", "messages", "role", "parts", "interruptId", "payload", "approval", "id", "state"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_a_body_without_the_word_approved_never_approves(body: Any) -> None:
    try:
        answers = us.answers_of(body)
    except ValueError:
        return
    assert not any(isinstance(each, dict) for each in answers.answer.values())


@given(st.text(min_size=1), st.integers(1, 9), st.text(), st.none() | st.text())
def test_an_id_holds_what_it_was_made_of(token: str, of: int, pause_id: str, call_id: str | None) -> None:
    made = InterruptId(token, of, pause_id, call_id)

    assert parsed_id(str(made)) == made


# --- with a run


@us.tool(approval=True)
def paid(cents: int) -> str:
    """Pay money back."""
    return f"paid {cents}"


def paused() -> tuple[us.Agent[str], us.RunHandle[str]]:
    model = ScriptedModel([calls("paid", cents=1) + calls("paid", cents=2), says("Done.")])
    agent = us.Agent("cashier", model=model, tools=[paid])
    handle = agent.submit("Refund both")
    handle.result()
    return agent, handle


def test_a_run_goes_on_with_the_answers_to_its_interrupts() -> None:
    agent, handle = paused()
    encoder = us.AguiEncoder(thread_id="t", run_id="r")
    told: list[Any] = [each for event in handle.events() for each in encoder.encode(event)]
    first, second = told[-1]["outcome"]["interrupts"]
    body = resume(
        resolved(first["id"], {"approved": True}), resolved(second["id"], {"approved": False, "reason": "no"})
    )

    outcome = agent.resume(*us.answers_of(body))

    assert [result.content for each in outcome.messages for result in each.tool_results] == ["paid 1", "Rejected: no"]


def test_a_client_has_each_call_once_when_the_run_goes_on() -> None:
    agent, handle = paused()
    encoder = us.AiSdkEncoder("m")
    told: list[Any] = [each for event in handle.events() for each in encoder.encode(event)]
    parts: list[JsonValue] = [
        {
            "type": "tool-paid",
            "toolCallId": each["toolCallId"],
            "state": "approval-responded",
            "approval": {"id": each["approvalId"], "approved": True},
        }
        for each in told
        if each["type"] == "tool-approval-request"
    ]
    body: dict[str, JsonValue] = {"messages": [message(*parts)]}

    again = agent.submit_resume(*us.answers_of(body))
    encoder = us.AiSdkEncoder("m", shown=us.shown_calls(body))
    went_on: list[Any] = [each for event in again.events() for each in encoder.encode(event)]

    outputs = [each["toolCallId"] for each in went_on if each["type"] == "tool-output-available"]
    assert sorted(outputs) == sorted(us.shown_calls(body))
    assert not [each for each in went_on if each["type"] == "tool-input-start"]


def test_the_calls_that_a_client_of_ag_ui_has_are_those_of_its_messages() -> None:
    messages: JsonValue = [
        {"role": "assistant", "toolCalls": [{"id": "a"}, {"id": 7}]},
        {"role": "user", "content": "Hi"},
    ]

    assert us.shown_calls({"messages": messages}) == ["a"]
    assert us.shown_calls({"messages": None}) == []
