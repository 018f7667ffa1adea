"""The table of errors that a run can go on after, and machines that go on after such an error."""

from __future__ import annotations

import pytest

import understudy as us
from tests.support.scripts import echo
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.group.children import ChildFailure, ChildResult, RunChildren
from understudy.orchestration.group.group_run import GroupDone
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.group.sequence_run import SequenceRun
from understudy.orchestration.saving.resumable import goes_on
from understudy.testing import calls, says

LIMITED = us.RateLimited("slow down")
WORDS = ChildFailure.of(LIMITED)


class Overloaded(us.RateLimited):
    """A class of a user's."""


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (LIMITED, "again"),
        (Overloaded("later"), "again"),
        (us.ProviderTimeout("late"), "again"),
        (us.ProviderError("overloaded", status=529, retryable=True), "again"),
        (us.ProviderError("no such model", status=404), "never"),
        (us.AuthenticationError("no key"), "never"),
        (us.AuthenticationError("not now", retryable=True), "again"),
        (us.BadReply("no JSON"), "never"),
        (us.BadReply("half a turn", retryable=True), "again"),
        (us.ContentBlocked("not this"), "never"),
        (us.RunTimedOut("late"), "again"),
        (us.RunCancelled("stop"), "again"),
        (us.MaxIterationsExceeded("too many"), "limit"),
        (us.BudgetExceeded("spent"), "limit"),
        (us.InvalidOutput("not that"), "limit"),
        (us.ContextOverflow("too long"), "limit"),
        (us.SeveralErrors("all failed", [us.BadReply("half"), LIMITED]), "again"),
        (us.SeveralErrors("all failed", [us.BadReply("half"), us.MaxIterationsExceeded("n")]), "limit"),
        (us.SeveralErrors("all failed", [us.UnfinishedRun("w"), LIMITED]), "again"),
        (us.SeveralErrors("all failed", [us.BadReply("half"), us.BadReply("half")]), "never"),
        (us.CallbackAbort("no"), "never"),
        (us.CircularAgentCall("round"), "never"),
        (us.UnfinishedRun("waits"), "limit"),
        (us.ToolError("broken"), "never"),
        (us.AgentCrashed("broken"), "never"),
        (us.StoreError("full"), "never"),
        (ValueError("none of ours"), "never"),
    ],
)
def test_the_class_of_an_error_says_how_a_run_goes_on_after_it(error: Exception, how: str) -> None:
    assert goes_on(error) == how


@pytest.mark.parametrize("kind", [us.AgentDown, us.AgentCrashed, us.MailboxFull, us.StoreError, us.CircularAgentCall])
def test_an_error_of_the_runtime_passes_for_runs_that_were_resumed(kind: type[us.UnderstudyError]) -> None:
    error = us.SeveralErrors("all failed", [kind("broken")])

    assert [goes_on(each, resumed=True) for each in (kind("broken"), error)] == ["again", "again"]
    assert [goes_on(each) for each in (kind("broken"), error)] == ["never", "never"]


# --- an agent


def begun() -> AgentRun:
    def look() -> str:
        return ""

    run = AgentRun(RunSpec.of(us.Agent("clerk", model="openai:m", tools=[look])), "go")
    run.next_step()
    run.model_response(calls("look") + calls("look") + calls("look"))
    run.next_step()
    return run


def test_a_call_that_was_cut_off_is_answered_and_calls_that_had_not_begun_are_due() -> None:
    run = begun()
    first, second, third = [call.id for call in (run.state.round.calls if run.state.round else ())]
    run.tool_results([us.ToolResult(first, "done")])

    run.cut_off([first, second, "unknown"])

    step = AgentRun.from_json(run.to_json(), run.spec).next_step()
    assert isinstance(step, us.CallTools)
    assert [call.id for call in step.calls] == [third]
    assert run.state.round is not None
    assert run.state.round.results[first].content == "done"
    assert run.state.round.results[second].error_kind == "not_run"


def test_a_child_that_was_stopped_waits_for_nobody_and_its_call_is_due() -> None:
    run = begun()
    first = run.state.round.calls[0].id if run.state.round else ""

    run.child_stopped(first, "saved")

    again = AgentRun.from_json(run.to_json(), run.spec)
    step = again.next_step()
    assert isinstance(step, us.CallTools)
    assert first in [call.id for call in step.calls]
    assert (again.pauses, again.waits) == ((), False)
    child = again.child(first)
    assert child is not None
    assert (child.saved, child.answers) == ("saved", {})


def test_a_turn_that_was_counted_before_it_was_taken_is_counted_once() -> None:
    run = AgentRun(RunSpec.of(us.Agent("clerk", model="openai:m")), "go")
    run.next_step()
    turn = us.ModelTurn(says("Done.").parts, usage=us.Usage(5, 2))

    run.prepay(turn)
    again = AgentRun.from_json(run.to_json(), run.spec)
    again.is_prepaid(turn)
    again.model_response(turn)

    assert (run.usage.total_tokens, again.usage.total_tokens, again.state.all_turns) == (7, 7, 1)


# --- groups


def test_a_sequence_goes_on_with_the_step_that_failed() -> None:
    run = SequenceRun(us.SequentialAgent("s", [echo("a"), echo("b")]).run_spec, "go")
    run.next_step()
    run.child_done(0, ChildResult(text="A"))
    run.next_step()
    run.child_failed(1, WORDS, LIMITED)
    with pytest.raises(us.RateLimited):
        run.next_step()

    run.child_kept(1, "saved")
    again = SequenceRun.from_json(run.to_json(), run.spec)
    again.retry_failed()

    step = again.next_step()
    assert isinstance(step, RunChildren)
    (order,) = step.children
    assert (order.position, order.paused and order.paused.saved) == (1, "saved")
    again.child_done(1, ChildResult(text="B"))
    done = again.next_step()
    assert isinstance(done, GroupDone)


def test_a_parallel_group_keeps_results_and_goes_on_with_the_others() -> None:
    run = ParallelRun(us.ParallelAgent("p", [echo("a"), echo("b"), echo("c")]).run_spec, "go")
    run.next_step()
    run.child_done(0, ChildResult(text="A"))
    run.child_failed(1, WORDS, LIMITED)

    run.child_kept(1, "failed")
    run.child_kept(2, "under way")
    again = ParallelRun.from_json(run.to_json(), run.spec)
    again.retry_failed()

    step = again.next_step()
    assert isinstance(step, RunChildren)
    kept = [(order.position, order.paused and order.paused.saved) for order in step.children]
    assert kept == [(1, "failed"), (2, "under way")]


def test_a_failure_that_was_collected_stays_one() -> None:
    run = ParallelRun(us.ParallelAgent("p", [echo("a"), echo("b")], on_error="collect").run_spec, "go")
    run.next_step()
    run.child_failed(0, WORDS, LIMITED)
    run.child_kept(0, "failed")

    run.retry_failed()

    assert run.state.children[0].phase == "failed"


def test_a_workflow_goes_on_inside_the_task_that_failed_and_spends_no_retry() -> None:
    flow = us.Workflow("w", [us.Task("a", echo("a")), us.Task("b", echo("b"), dependencies=["a"], retries=1)])
    run = GraphRun(flow.run_spec, "go")
    run.next_step()
    run.child_done(0, ChildResult(text="A"))
    run.next_step()
    run.child_failed(1, WORDS, LIMITED, may_retry=False)
    run.child_kept(1, "saved")
    assert isinstance(run.next_step(), GroupDone)

    again = GraphRun.from_json(run.to_json(), run.spec)
    again.retry_failed()

    step = again.next_step()
    assert isinstance(step, RunChildren)
    (order,) = step.children
    assert (order.position, order.paused and order.paused.saved) == (1, "saved")
    assert again.state.children[1].attempts == 0


def test_only_a_child_that_failed_or_runs_is_kept() -> None:
    run = SequenceRun(us.SequentialAgent("s", [echo("a")]).run_spec, "go")
    run.next_step()
    run.child_done(0, ChildResult(text="A"))

    with pytest.raises(us.ProtocolViolation, match="child 0 of 's' is done"):
        run.child_kept(0, "saved")


def test_a_group_with_incomplete_children_alone_is_incomplete() -> None:
    run = ParallelRun(us.ParallelAgent("p", [echo("a"), echo("b")]).run_spec, "go")
    run.next_step()
    run.child_at_limit(0, "saved", ChildFailure("UnfinishedRun", "a stopped"))
    run.child_done(1, ChildResult(text="B"))

    step = ParallelRun.from_json(run.to_json(), run.spec).next_step()

    assert isinstance(step, GroupDone)
    assert isinstance(step.outcome, us.Incomplete)
    assert step.outcome.completion_reason == "a stopped"


def test_of_an_incomplete_child_and_one_at_a_limit_the_limit_is_told() -> None:
    run = ParallelRun(us.ParallelAgent("p", [echo("a"), echo("b")]).run_spec, "go")
    run.next_step()
    run.child_at_limit(0, "saved", ChildFailure("UnfinishedRun", "a stopped"))
    run.child_at_limit(1, "saved", ChildFailure("MaxIterationsExceeded", "too many"))

    with pytest.raises(us.MaxIterationsExceeded):
        run.next_step()
