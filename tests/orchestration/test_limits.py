"""`max_iterations`, `max_turns`, and raising them."""

from __future__ import annotations

from typing import TypedDict

import pytest

from tests.support.machines import (
    answers,
    asks,
    call,
    completed,
    gives,
    make_spec,
    messages_of,
    model_step,
    reloaded,
    run_of,
    tool_ids,
)
from understudy.errors import MaxIterationsExceeded, ProtocolViolation
from understudy.messages import ModelTurn, says
from understudy.orchestration import AgentRun, CallModel, CallTools, RetryTurn, RunSpec


class Limits(TypedDict, total=False):
    """What can be raised, by number."""

    max_iterations: int
    max_turns: int
    max_continues: int


def with_rounds(spec: RunSpec, rounds: int) -> AgentRun:
    """Begin a run and carry out this many rounds of one call each."""
    run = AgentRun(spec, "Hi")
    for i in range(rounds):
        model_step(run)
        run.model_response(asks(call(f"c{i}")))
        assert tool_ids(run) == [f"c{i}"]
        run.tool_results([gives(f"c{i}")])
    return run


@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_so_many_rounds_run_and_the_next_raises_before_anything_of_it_runs(limit: int) -> None:
    run = with_rounds(make_spec("look", max_iterations=limit), limit)
    model_step(run)
    run.model_response(asks(call("late")))
    before = run.to_json()

    for again in (run, run, reloaded(run)):
        with pytest.raises(MaxIterationsExceeded) as caught:
            again.next_step()
        assert (caught.value.limit, caught.value.what) == (limit, "max_iterations")
        assert again.to_json() == before
        with pytest.raises(ProtocolViolation):
            again.tool_results([gives("late")])


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_text_after_the_last_allowed_round_completes_the_run(limit: int) -> None:
    run = with_rounds(make_spec("look", max_iterations=limit), limit)

    run.model_response(says("Seven."))

    assert completed(run).iterations == limit
    assert completed(run).turns == limit + 1


def test_raising_the_limit_runs_the_round_that_was_refused() -> None:
    run = with_rounds(make_spec("look", max_iterations=1), 1)
    run.model_response(asks(call("late")))
    with pytest.raises(MaxIterationsExceeded):
        run.next_step()

    run.extend(max_iterations=2)

    assert run.next_step() == CallTools((call("late"),))
    run.tool_results([gives("late")])
    assert messages_of(run)[-1] == answers(gives("late"))
    run.model_response(asks(call("later")))
    with pytest.raises(MaxIterationsExceeded) as caught:
        run.next_step()
    assert caught.value.limit == 2


def test_a_refused_round_goes_on_in_another_process_too() -> None:
    run = with_rounds(make_spec("look", max_iterations=0), 0)
    run.model_response(asks(call("a")))

    again = reloaded(run)
    again.extend(max_iterations=1)

    assert tool_ids(again) == ["a"]


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_so_many_model_calls_are_made_and_no_more(limit: int) -> None:
    run = with_rounds(make_spec("look", max_turns=limit), limit)
    before = run.to_json()

    for again in (run, run, reloaded(run)):
        with pytest.raises(MaxIterationsExceeded) as caught:
            again.next_step()
        assert (caught.value.limit, caught.value.what) == (limit, "max_turns")
        with pytest.raises(ProtocolViolation):
            again.model_response(says("Seven."))
        assert again.to_json() == before


def test_the_last_allowed_turn_may_answer() -> None:
    run = with_rounds(make_spec("look", max_turns=3), 2)

    run.model_response(says("Seven."))

    assert completed(run).turns == 3


def test_of_no_allowed_turns_not_one_is_made() -> None:
    run = AgentRun(make_spec(max_turns=0), "Hi")

    with pytest.raises(MaxIterationsExceeded) as caught:
        run.next_step()

    assert (caught.value.limit, caught.value.what) == (0, "max_turns")


def test_the_results_of_the_last_allowed_turn_are_kept_for_when_the_limit_is_raised() -> None:
    run = with_rounds(make_spec("look", max_turns=1), 1)

    run.extend(max_turns=2)

    assert model_step(run).request.tool_results == (gives("c0"),)
    assert model_step(run).request.turn == 2


def test_a_turn_that_was_tried_again_and_a_continue_message_cost_turns_but_no_rounds() -> None:
    run = AgentRun(make_spec("look", criteria=True, max_turns=3), "Hi")
    run.model_response(asks(call("a", "lok")), resolutions={0: RetryTurn("No such tool.")})
    run.model_response(says("Soon."))
    run.model_response(says("DONE"), met="enough")

    outcome = completed(run)

    assert (outcome.turns, outcome.iterations) == (3, 0)


def test_a_round_in_which_every_call_was_refused_counts() -> None:
    # It is a round of tool calls that the model asked for; else a model that only errs would never reach the limit.
    run = run_of(make_spec("look", max_iterations=1), [asks(call("a", "lok"))])

    assert isinstance(run.next_step(), CallModel)
    run.model_response(asks(call("b")))

    with pytest.raises(MaxIterationsExceeded):
        run.next_step()


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


def test_a_raised_limit_is_the_run_s_own_and_is_saved_with_it() -> None:
    spec = make_spec("look", max_iterations=0)
    run = run_of(spec, [asks(call("a"))])
    run.extend(max_iterations=1)

    assert tool_ids(reloaded(run)) == ["a"]
    assert spec.max_iterations == 0


def test_limits_say_whose_they_are() -> None:
    run = run_of(make_spec("look", max_iterations=0), [asks(call("a"))])

    with pytest.raises(MaxIterationsExceeded, match=r"'clerk'.*\(max_iterations\)"):
        run.next_step()


def test_an_answer_may_still_be_given_when_no_turn_is_left_to_use_it() -> None:
    run = run_of(make_spec(max_turns=1), [says("__ask_user__: Which city?")])

    run.answer("Paris")

    with pytest.raises(MaxIterationsExceeded):
        run.next_step()
    run.extend(max_turns=2)
    assert model_step(run).request.text == "Paris"


def test_a_turn_fed_beyond_the_limit_names_the_limit() -> None:
    run = run_of(make_spec(max_turns=0))

    with pytest.raises(ProtocolViolation, match="max_turns"):
        run.model_response(ModelTurn(()))
