"""What limits there are, and which changes of them are refused; `tests/support/scenarios/limits.py` has what they do."""

from __future__ import annotations

from typing import TypedDict

import pytest

from tests.support.machines import (
    asks,
    call,
    completed,
    make_spec,
    run_of,
)
from understudy.errors import MaxIterationsExceeded, ProtocolViolation
from understudy.orchestration import AgentRun, RetryTurn
from understudy.vocabulary.messages import ModelTurn, says


class Limits(TypedDict, total=False):
    """What can be raised, by number."""

    max_iterations: int
    max_turns: int
    max_continues: int


def test_of_no_allowed_turns_not_one_is_made() -> None:
    run = AgentRun(make_spec(max_turns=0), "Hi")

    with pytest.raises(MaxIterationsExceeded) as caught:
        run.next_step()

    assert (caught.value.limit, caught.value.what) == (0, "max_turns")


def test_a_turn_that_was_tried_again_and_a_continue_message_cost_turns_but_no_rounds() -> None:
    run = AgentRun(make_spec("look", criteria=True, max_turns=3), "Hi")
    run.model_response(asks(call("a", "lok")), resolutions={0: RetryTurn("No such tool.")})
    run.model_response(says("Soon."))
    run.model_response(says("DONE"), met="enough")

    outcome = completed(run)

    assert (outcome.turns, outcome.iterations) == (3, 0)


def test_a_limit_is_a_whole_number() -> None:
    run = AgentRun(make_spec(), "Hi")

    with pytest.raises(TypeError, match="max_turns must be a whole number, got '60'"):
        run.extend(max_turns="60")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake is the point


@pytest.mark.parametrize(
    "lower",
    [{"max_iterations": 4}, {"max_turns": 6}, {"max_continues": 2}, {"max_iterations": 9, "max_turns": 6}],
)
def test_limits_cannot_be_lowered_and_a_refused_change_changes_nothing(lower: Limits) -> None:
    run = AgentRun(make_spec(max_iterations=5, max_turns=7, max_continues=3), "Hi")
    before = run.to_json()

    with pytest.raises(ValueError, match="can only be raised"):
        run.extend(**lower)

    assert run.to_json() == before


def test_setting_a_limit_to_what_it_is_changes_nothing() -> None:
    run = AgentRun(make_spec(max_iterations=5), "Hi")
    before = run.to_json()

    run.extend(max_iterations=5)
    run.extend()

    assert run.to_json() == before


def test_limits_say_whose_they_are() -> None:
    run = run_of(make_spec("look", max_iterations=0), [asks(call("a"))])

    with pytest.raises(MaxIterationsExceeded, match=r"'clerk'.*\(max_iterations\)"):
        run.next_step()


def test_a_turn_fed_beyond_the_limit_names_the_limit() -> None:
    run = run_of(make_spec(max_turns=0))

    with pytest.raises(ProtocolViolation, match="max_turns"):
        run.model_response(ModelTurn(()))
