"""Results that end a run: the machine says when, and answers every call all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.machines import answers, asks, call, make_spec, messages_of, model_step, reloaded, tool_ids
from understudy.errors import ToolError, ToolTimeout, ToolUnavailable
from understudy.orchestration import AgentRun
from understudy.orchestration.agent.rounds import CANCELLED
from understudy.vocabulary.messages import ToolCall, ToolErrorKind, ToolResult

PLAIN = make_spec("look", "find")
RAISING = replace(PLAIN, on_tool_error="raise")


def failed(id: str, kind: ToolErrorKind, name: str = "look") -> ToolResult:
    return ToolResult(id, f"{name} failed", is_error=True, error_kind=kind, name=name)


def asked(*calls: ToolCall, spec: object = RAISING) -> AgentRun:
    assert isinstance(spec, type(RAISING))
    run = AgentRun(spec, "Hi")
    model_step(run)
    run.model_response(asks(*calls))
    return run


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("raised", ToolError),
        ("too_large", ToolError),
        ("bad_arguments", ToolError),
        ("", ToolError),
        ("timed_out", ToolTimeout),
        ("unavailable", ToolUnavailable),
    ],
)
def test_a_failed_call_ends_the_run_with_the_error_of_its_kind(kind: ToolErrorKind, error: type[ToolError]) -> None:
    run = asked(call("a"))
    tool_ids(run)

    run.tool_results([failed("a", kind)])

    for again in (run, reloaded(run)):
        with pytest.raises(ToolError, match="look failed") as caught:
            again.next_step()
        assert (type(caught.value), caught.value.tool, caught.value.call_id) == (error, "look", "a")


@pytest.mark.parametrize("kind", ["retry", "rejected", "skipped", "not_run"])
def test_what_is_no_failure_of_a_tool_is_for_the_model(kind: ToolErrorKind) -> None:
    run = asked(call("a"))
    tool_ids(run)

    run.tool_results([failed("a", kind)])

    assert messages_of(run)[-1] == answers(failed("a", kind))
    model_step(run)


def test_every_call_of_the_round_is_answered_also_those_that_nobody_ran_or_decided_about() -> None:
    spec = replace(RAISING, approvals={"find": True})
    run = asked(call("a"), call("b"), call("c", "find"), spec=spec)
    assert tool_ids(run) == ["a", "b"]

    run.tool_results([failed("a", "raised")])

    cut = [ToolResult(id, CANCELLED, True, "not_run", name) for id, name in (("b", "look"), ("c", "find"))]
    assert messages_of(run)[-1] == answers(failed("a", "raised"), *cut)
    with pytest.raises(ToolError):
        run.next_step()


def test_of_two_failures_the_first_in_call_order_is_told() -> None:
    run = asked(call("a"), call("b"))
    tool_ids(run)

    run.tool_results([failed("b", "timed_out"), failed("a", "raised")])

    with pytest.raises(ToolError) as caught:
        run.next_step()
    assert (type(caught.value), caught.value.call_id) == (ToolError, "a")


def test_what_becomes_of_errors_is_no_part_of_the_fingerprint() -> None:
    assert RAISING.fingerprint() == PLAIN.fingerprint()
