"""Outcomes: what can be read of a run that is done, and of one that is not."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from operator import attrgetter, methodcaller
from typing import Any, assert_type, cast

import pytest

from understudy.errors import RateLimited, UnfinishedRun
from understudy.vocabulary.messages import ToolCall, Usage, user_message
from understudy.vocabulary.runs.outcomes import (
    Approve,
    Complete,
    Incomplete,
    MoreTurns,
    NeedsApproval,
    NeedsInput,
    Outcome,
    Reject,
    TaskResult,
)

WAITS = NeedsInput(
    run_id="r1", token="t1", question="Which city?", completion_reason="waits for an answer: Which city?"
)
STUCK = NeedsApproval(run_id="r2", token="t2", calls=(ToolCall("a", "refund"),), completion_reason="waits for approval")
STOPPED = Incomplete(run_id="r3", token="t3", last_text="Soon.", completion_reason="no criterion was met")


@pytest.mark.parametrize("outcome", [WAITS, STUCK, STOPPED])
@pytest.mark.parametrize("read", [attrgetter("text"), attrgetter("output"), methodcaller("unwrap")])
def test_the_answer_of_an_unfinished_run_cannot_be_read_and_the_error_says_what_it_waits_for(
    outcome: NeedsInput | NeedsApproval | Incomplete, read: Callable[[object], object]
) -> None:
    with pytest.raises(UnfinishedRun, match=outcome.completion_reason) as caught:
        read(outcome)

    assert (caught.value.run_id, caught.value.token) == (outcome.run_id, outcome.token)


def test_the_states_are_told_apart_by_their_status() -> None:
    done = Complete(text="Seven.", output=7)

    assert [o.status for o in (done, WAITS, STUCK, STOPPED)] == [
        "complete",
        "needs_input",
        "needs_approval",
        "incomplete",
    ]


def test_an_outcome_can_be_matched_and_shows_what_it_holds() -> None:
    match Complete(text="Seven.", output="Seven.", usage=Usage(1)):
        case Complete(text=text, usage=Usage(input_tokens=tokens)):
            assert (text, tokens) == ("Seven.", 1)


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (Complete(text="Seven.", output="Seven."), "Complete(text='Seven.', agent_id='', run_id='', turns=0)"),
        (
            Complete(
                text="7", output=7, agent_id="a", run_id="r", turns=2, messages=(user_message("x"),), session={"k": 1}
            ),
            "Complete(output=7, agent_id='a', run_id='r', turns=2)",
        ),
        (WAITS, "NeedsInput(question='Which city?', agent_id='', run_id='r1', turns=0)"),
        (STUCK, "NeedsApproval(calls='refund', agent_id='', run_id='r2', turns=0)"),
        (STOPPED, "Incomplete(last_text='Soon.', agent_id='', run_id='r3', turns=0)"),
        (
            Incomplete(completion_reason="a task failed"),
            "Incomplete(completion_reason='a task failed', agent_id='', run_id='', turns=0)",
        ),
        (
            MoreTurns(token="t", completion_reason="one turn is done"),
            "MoreTurns(completion_reason='one turn is done', agent_id='', run_id='', turns=0)",
        ),
    ],
)
def test_an_outcome_is_shown_in_a_short_line_without_its_token(outcome: Outcome[object] | MoreTurns, line: str) -> None:
    assert repr(outcome) == line


def test_a_long_answer_is_cut_where_it_is_shown() -> None:
    outcome = Complete(text="x" * 100_000, output="x" * 100_000)

    assert len(repr(outcome)) < 200 and "xx…, agent_id=" in repr(outcome)
    assert len(cast(Any, outcome)._repr_html_()) < 2_500


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", "a&b", "'\""])
def test_a_notebook_shows_an_outcome_with_everything_escaped(evil: str) -> None:
    html = cast(Any, Complete(text=evil, output=evil, agent_id=evil, run_id=evil, usage=Usage(3, 4)))._repr_html_()
    typed = cast(Any, Complete(text="", output=[evil]))._repr_html_()

    assert html.count(escape(evil)) == 3 and evil not in html.replace('style="white-space: pre-wrap"', "").replace(
        "&amp;", ""
    )
    assert "tokens: 7" in html
    assert escape(repr([evil])) in typed
    assert "t1" not in cast(Any, WAITS)._repr_html_()


def test_decisions_are_plain() -> None:
    assert Approve() == Approve(None)
    assert Approve({}) != Approve()
    assert Reject("no").reason == "no"


def test_a_complete_outcome_is_what_it_unwraps_to() -> None:
    done: Outcome[int] = Complete(text="Seven.", output=7)

    unwrapped = done.unwrap()

    assert_type(unwrapped, Complete[int])
    assert unwrapped is done


def test_an_outcome_with_failed_tasks_unwraps_to_the_error_of_the_first() -> None:
    first, second = RateLimited("slow down", retry_after=7.0), ValueError("no list")
    tasks = {
        "fetch": TaskResult(name="fetch", status="done", text="tides"),
        "check": TaskResult(name="check", status="failed", reason="RateLimited: slow down", error=first),
        "write": TaskResult(name="write", status="failed", reason="no list", error=second),
    }

    with pytest.raises(RateLimited) as caught:
        Incomplete(tasks=tasks).unwrap()

    assert caught.value is first
