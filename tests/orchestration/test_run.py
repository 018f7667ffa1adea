"""A run from its input to its answer: texts, tool rounds, usage, questions, criteria."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

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
    run_of,
    said,
    tool_ids,
)
from understudy.errors import ContentBlocked, ProtocolViolation
from understudy.orchestration import AgentRun, AwaitInput, CallModel, CallTools, Done, RunSpec
from understudy.orchestration.agent.state import check_answered
from understudy.vocabulary.messages import (
    ImagePart,
    Message,
    ModelRequest,
    ModelTurn,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    calls,
    says,
    user_message,
)
from understudy.vocabulary.runs.outcomes import Approve, Complete

PLAIN = make_spec("look", "find")


# --- texts


def test_first_step_sends_the_input_with_all_that_the_spec_says() -> None:
    run = AgentRun(PLAIN, "Hi")

    step = run.next_step()

    assert step == CallModel(
        ModelRequest([asked("Hi")], system="Be brief.", tools=PLAIN.tools, settings=Settings(), turn=1)
    )


def test_first_text_ends_the_run() -> None:
    run = run_of(PLAIN, [says("Seven.", usage=Usage(3, 1))])

    step = run.next_step()

    assert step == Done(
        Complete(
            agent_id="clerk",
            completion_reason="the model answered",
            iterations=0,
            turns=1,
            usage=Usage(3, 1),
            messages=(asked("Hi"), said(TextPart("Seven."))),
            text="Seven.",
            output="Seven.",
            finish_reason="stop",
        )
    )


def test_input_may_be_parts() -> None:
    picture = ImagePart(url="https://example.org/cat.png")
    run = AgentRun(PLAIN, [TextPart("What is this?"), picture])

    assert messages_of(run) == [user_message([TextPart("What is this?"), picture])]


def test_history_goes_before_the_input_and_is_not_part_of_what_the_run_added() -> None:
    before = [asked("I am Ada."), said(TextPart("Hello, Ada."))]
    run = AgentRun(PLAIN, "Who am I?", history=before)

    request = model_step(run).request
    run.model_response(says("Ada."))

    assert request.messages == [*before, asked("Who am I?")]
    assert messages_of(run) == [*before, asked("Who am I?"), said(TextPart("Ada."))]
    assert completed(run).messages == (asked("Who am I?"), said(TextPart("Ada.")))


def test_a_history_with_a_call_that_has_no_result_is_refused() -> None:
    call, other = ToolCall("c1", "on_shelf", {}), ToolCall("c2", "on_shelf", {})
    result = Message("user", (ToolResult(call_id="c1", content="7"),))
    whole = [asked("How many?"), said(call), result, said(TextPart("Seven."))]

    check_answered(whole)
    for broken in ([asked("How many?"), said(call)], [said(call), asked("Well?"), result], [said(call, other), result]):
        with pytest.raises(ValueError, match=r"history: the call of 'on_shelf' \(id 'c[12]'\) has no result"):
            check_answered(broken)
        with pytest.raises(ValueError, match=r"history: the call of 'on_shelf' \(id 'c[12]'\) has no result"):
            AgentRun(PLAIN, "Hi", history=broken)


def test_the_list_given_as_history_is_not_changed() -> None:
    before = [asked("I am Ada.")]

    AgentRun(PLAIN, "Who am I?", history=before).model_response(says("Ada."))

    assert before == [asked("I am Ada.")]


def test_a_system_prompt_made_by_a_function_replaces_the_spec_s() -> None:
    by_function = replace(PLAIN, system=None)

    assert model_step(AgentRun(by_function, "Hi", system="Be long.")).request.system == "Be long."
    assert model_step(AgentRun(by_function, "Hi")).request.system == ""
    assert model_step(AgentRun(PLAIN, "Hi", system="")).request.system == ""


def test_a_request_stays_as_it_was_while_the_run_goes_on() -> None:
    run = AgentRun(PLAIN, "Hi")
    request = model_step(run).request

    run.model_response(asks(call("a")))
    run.next_step()
    run.tool_results([gives("a")])

    assert request.messages == [asked("Hi")]
    assert list(request.messages) == [asked("Hi")]


def test_the_same_failure_is_a_new_error_each_time() -> None:
    run = run_of(PLAIN, [ModelTurn((), finish_reason="blocked")])

    with pytest.raises(ContentBlocked) as first:
        run.next_step()
    with pytest.raises(ContentBlocked) as second:
        run.next_step()

    assert first.value is not second.value
    assert str(first.value) == str(second.value)


# --- rounds of tool calls


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_results_in_any_order_make_one_message_in_call_order(order: tuple[str, ...]) -> None:
    run = run_of(PLAIN, [asks(call("a"), call("b"), call("c"))])

    pending = ["a", "b", "c"]
    for id in order:
        assert tool_ids(run) == pending
        run.tool_results([gives(id)])
        pending.remove(id)

    assert messages_of(run)[-1] == answers(gives("a"), gives("b"), gives("c"))
    assert model_step(run).request.turn == 2


def test_results_may_come_in_part_and_the_step_is_given_again_with_the_rest() -> None:
    run = run_of(PLAIN, [asks(call("a"), call("b"), call("c"))])
    run.next_step()

    run.tool_results([gives("c"), gives("a")])

    assert run.next_step() == CallTools((call("b"),))
    assert len(run.messages) == 2


def test_the_name_of_a_result_is_filled_in_only_where_it_is_missing() -> None:
    run = run_of(PLAIN, [asks(call("a", "look"), call("b", "find"))])
    run.next_step()

    run.tool_results([ToolResult("a", "7"), ToolResult("b", "8", name="other")])

    assert messages_of(run)[-1] == answers(gives("a", "7", "look"), gives("b", "8", "other"))


@pytest.mark.parametrize(
    "results",
    [
        pytest.param([], id="none"),
        pytest.param([gives("z")], id="unknown id"),
        pytest.param([gives("b"), gives("z")], id="a pending and an unknown id"),
        pytest.param([gives("b"), gives("b")], id="the same id twice"),
        pytest.param([gives("a")], id="an id answered before"),
    ],
)
def test_results_that_do_not_fit_are_refused_and_change_nothing(results: list[ToolResult]) -> None:
    run = run_of(PLAIN, [asks(call("a"), call("b"))])
    run.next_step()
    run.tool_results([gives("a")])
    before = run.to_json()

    with pytest.raises(ProtocolViolation):
        run.tool_results(results)

    assert run.to_json() == before
    run.tool_results([gives("b")])
    assert messages_of(run)[-1] == answers(gives("a"), gives("b"))


@pytest.mark.parametrize(
    ("ids", "made_up"),
    [
        (["", ""], [True, True]),
        (["a", "a"], [False, True]),
        (["a", "", "a", "b"], [False, True, True, False]),
        (["call-1-1", ""], [False, True]),
        (["call-1-2", "", ""], [False, True, True]),
        (["", "call-1-0"], [True, False]),
        (["", "", "call-1-0", "call-1-1"], [True, True, False, False]),
    ],
)
def test_calls_without_an_id_of_their_own_get_one(ids: list[str], made_up: list[bool]) -> None:
    run = run_of(PLAIN, [asks(*[call(id) for id in ids])])

    given = messages_of(run)[-1].tool_calls

    assert len({c.id for c in given}) == len(ids)
    assert all(c.id for c in given)
    assert [c.made_up_id for c in given] == made_up
    assert [c.id for c, made in zip(given, made_up, strict=True) if not made] == [
        id for id, made in zip(ids, made_up, strict=True) if not made
    ]
    assert tool_ids(run) == [c.id for c in given]


def test_made_up_ids_are_the_same_at_every_run() -> None:
    turn = calls("look") + calls("find")

    assert messages_of(run_of(PLAIN, [turn])) == messages_of(run_of(PLAIN, [turn]))


# --- questions to a person


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("__ask_user__: Which city?", "Which city?"),
        ("__ask_user__:Which city?", "Which city?"),
        ("\n  __ask_user__:  Which city? \n", "Which city?"),
    ],
)
def test_a_text_that_begins_with_the_mark_is_a_question(text: str, question: str) -> None:
    run = run_of(PLAIN, [says(text)])

    assert run.next_step() == AwaitInput(question)


# --- criteria

JUDGED = make_spec("look", criteria=True, max_continues=2)


def test_raising_another_limit_does_not_wake_an_incomplete_run() -> None:
    run = run_of(JUDGED, [says("One."), says("Two."), says("Three.")])

    run.extend(max_turns=100, max_continues=2)

    assert isinstance(run.next_step(), Done)
    with pytest.raises(ProtocolViolation):
        run.model_response(says("Four."))


# --- order

TURN = asks(call("a"), call("b"))


def fresh() -> AgentRun:
    return AgentRun(PLAIN, "Hi")


def with_tools() -> AgentRun:
    run = run_of(PLAIN, [TURN])
    run.next_step()
    return run


def with_half_the_results() -> AgentRun:
    run = with_tools()
    run.tool_results([gives("b")])
    return run


def with_a_round_not_begun() -> AgentRun:
    return run_of(PLAIN, [TURN])


def with_a_question() -> AgentRun:
    return run_of(PLAIN, [says("__ask_user__: Which city?")])


def with_an_approval() -> AgentRun:
    run = run_of(make_spec("look", approvals={"look": True}), [TURN])
    run.next_step()
    return run


def done() -> AgentRun:
    return run_of(PLAIN, [says("Seven.")])


def incomplete() -> AgentRun:
    return run_of(make_spec(criteria=True, max_continues=0), [says("One.")])


def failed() -> AgentRun:
    return run_of(PLAIN, [ModelTurn((), finish_reason="blocked")])


PHASES: dict[Callable[[], AgentRun], set[str]] = {
    fresh: {"turn"},
    with_a_round_not_begun: set(),
    with_tools: {"results"},
    with_half_the_results: {"results"},
    with_a_question: {"answer"},
    with_an_approval: {"decisions"},
    done: set(),
    incomplete: set(),
    failed: set(),
}
FEEDS: dict[str, Callable[[AgentRun], None]] = {
    "turn": lambda run: run.model_response(says("Seven.")),
    "results": lambda run: run.tool_results([gives("a")]),
    "decisions": lambda run: run.decisions({"a": Approve()}),
    "answer": lambda run: run.answer("Paris"),
}


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_only_what_is_due_is_taken_and_the_rest_changes_nothing(phase: Callable[[], AgentRun], feed: str) -> None:
    run = phase()
    before = run.to_json()

    if feed in PHASES[phase]:
        FEEDS[feed](run)
        assert run.to_json() != before
    else:
        with pytest.raises(ProtocolViolation):
            FEEDS[feed](run)
        assert run.to_json() == before


@pytest.mark.parametrize("phase", [p for p in PHASES if p is not failed], ids=lambda phase: phase.__name__)
def test_the_same_step_is_given_until_the_machine_is_fed(phase: Callable[[], AgentRun]) -> None:
    run = phase()

    step = run.next_step()
    before = run.to_json()

    assert run.next_step() == step
    assert reloaded(run).next_step() == step
    assert run.to_json() == before


def test_a_call_that_must_not_come_says_what_is_due() -> None:
    run = AgentRun(RunSpec(agent_id="clerk"), "Hi")

    with pytest.raises(ProtocolViolation, match=r"an answer came out of order.*'clerk'.*phase 'model'.*next_step"):
        run.answer("Paris")


def test_a_call_keeps_what_the_provider_wants_to_see_again() -> None:
    signed = ToolCall("a", "look", {}, signature="proof")
    run = run_of(PLAIN, [ModelTurn((signed,), dialect="google")])

    assert messages_of(run)[-1] == said(signed, dialect="google")
