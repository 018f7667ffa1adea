"""Outcomes: what can be read of a run that is done, and of one that is not."""

from __future__ import annotations

import pytest

from understudy.errors import UnfinishedRun
from understudy.messages import ToolCall, Usage
from understudy.outcomes import Approve, Complete, Incomplete, NeedsApproval, NeedsInput, Reject

WAITS = NeedsInput(
    run_id="r1", token="t1", question="Which city?", completion_reason="waits for an answer: Which city?"
)
STUCK = NeedsApproval(run_id="r2", token="t2", calls=(ToolCall("a", "refund"),), completion_reason="waits for approval")
STOPPED = Incomplete(run_id="r3", token="t3", last_text="Soon.", completion_reason="no criterion was met")


@pytest.mark.parametrize("outcome", [WAITS, STUCK, STOPPED])
def test_the_text_of_an_unfinished_run_cannot_be_read_and_says_what_it_waits_for(
    outcome: NeedsInput | NeedsApproval | Incomplete,
) -> None:
    for name in ("text", "output"):
        with pytest.raises(UnfinishedRun, match=outcome.completion_reason) as caught:
            getattr(outcome, name)
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


def test_unfinished_outcomes_can_be_shown_and_compared() -> None:
    assert "Which city?" in repr(WAITS)
    assert WAITS == NeedsInput(
        run_id="r1", token="t1", question="Which city?", completion_reason="waits for an answer: Which city?"
    )


def test_decisions_are_plain() -> None:
    assert Approve() == Approve(None)
    assert Approve({}) != Approve()
    assert Reject("no").reason == "no"
