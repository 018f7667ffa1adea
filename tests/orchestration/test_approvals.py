"""Calls that a person must agree to: who waits, and what becomes of them."""

from __future__ import annotations

from typing import cast

import pytest

from tests.support.machines import (
    answers,
    asks,
    call,
    gives,
    make_spec,
    messages_of,
    run_of,
    tool_ids,
    waiting_ids,
)
from understudy.errors import ProtocolViolation
from understudy.orchestration import AgentRun, CallTools
from understudy.vocabulary.messages import ToolResult
from understudy.vocabulary.runs.outcomes import Approve, Decision, Reject

SPEC = make_spec("look", "refund", "grant", approvals={"refund": True, "look": False})
BY_RULE = make_spec("look", "refund", approvals={"refund": None})


def rejected(id: str, content: str, name: str = "refund") -> ToolResult:
    return ToolResult(id, content, is_error=True, error_kind="rejected", name=name)


def test_a_person_may_change_the_arguments_to_none_at_all() -> None:
    run = run_of(SPEC, [asks(call("a", "refund", cents="1200"))])
    run.next_step()

    run.decisions({"a": Approve(arguments={})})

    assert run.next_step() == CallTools((call("a", "refund"),))


@pytest.mark.parametrize(
    ("verdicts", "waits"),
    [
        ({}, ["a", "c"]),
        ({0: True, 2: True}, ["a", "c"]),
        ({0: False, 2: True}, ["c"]),
        ({0: False}, ["c"]),
    ],
)
def test_where_a_function_decides_its_verdict_goes_by_position_and_silence_asks(
    verdicts: dict[int, bool], waits: list[str]
) -> None:
    run = AgentRun(BY_RULE, "Hi")
    run.model_response(asks(call("a", "refund"), call("b"), call("c", "refund")), approvals=verdicts)

    step = run.next_step()
    assert isinstance(step, CallTools)
    run.tool_results([gives(c.id, name=c.name) for c in step.calls])

    assert waiting_ids(run) == waits


def test_a_verdict_that_is_a_text_answers_the_call_and_nobody_is_asked() -> None:
    run = AgentRun(BY_RULE, "Hi")

    run.model_response(asks(call("a", "refund"), call("b")), approvals={0: "Not run: the rule is broken"})

    assert tool_ids(run) == ["b"]
    run.tool_results([gives("b")])
    refused = ToolResult("a", "Not run: the rule is broken", is_error=True, error_kind="blocked", name="refund")
    assert messages_of(run)[-1] == answers(refused, gives("b"))


@pytest.mark.parametrize("verdict", [None, 0, 1, []])
def test_a_verdict_of_another_type_is_refused_and_changes_nothing(verdict: object) -> None:
    run = AgentRun(BY_RULE, "Hi")
    before = run.to_json()

    with pytest.raises(TypeError, match="expected True, False, or a text"):
        run.model_response(asks(call("a", "refund")), approvals={0: cast(bool, verdict)})

    assert run.to_json() == before


def test_a_verdict_does_not_overrule_a_fixed_rule() -> None:
    run = AgentRun(SPEC, "Hi")
    run.model_response(asks(call("a", "refund"), call("b", "look")), approvals={0: False, 1: True})

    assert tool_ids(run) == ["b"]
    run.tool_results([gives("b")])
    assert waiting_ids(run) == ["a"]


@pytest.mark.parametrize(
    "decisions",
    [
        pytest.param({}, id="none"),
        pytest.param({"z": Approve()}, id="unknown id"),
        pytest.param({"a": Approve(), "z": Approve()}, id="a waiting and an unknown id"),
        pytest.param({"b": Approve()}, id="a call that never waited"),
        pytest.param({"c": Reject()}, id="a call decided before"),
    ],
)
def test_decisions_that_do_not_fit_are_refused_and_change_nothing(decisions: dict[str, Decision]) -> None:
    run = run_of(SPEC, [asks(call("a", "refund"), call("b"), call("c", "refund"))])
    run.next_step()
    run.tool_results([gives("b")])
    run.decisions({"c": Reject()})
    before = run.to_json()

    with pytest.raises(ProtocolViolation):
        run.decisions(decisions)

    assert run.to_json() == before
    assert waiting_ids(run) == ["a"]


@pytest.mark.parametrize("answer", [True, False, None, "no", Reject, Approve, {"kind": "reject"}])
def test_what_is_no_decision_is_never_taken_for_a_yes(answer: object) -> None:
    run = run_of(SPEC, [asks(call("a", "refund"), call("b", "refund"))])
    run.next_step()
    before = run.to_json()

    with pytest.raises(TypeError, match="call 'a': expected Approve or Reject"):
        run.decisions({"b": Approve(), "a": cast(Decision, answer)})

    assert run.to_json() == before


def test_results_of_calls_that_wait_are_refused() -> None:
    run = run_of(SPEC, [asks(call("a", "refund"), call("b"))])
    run.next_step()

    with pytest.raises(ProtocolViolation):
        run.tool_results([gives("a")])
