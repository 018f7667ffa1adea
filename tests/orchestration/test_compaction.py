"""Compaction as the machine decides it: when, of what, and what requests show after it."""

from __future__ import annotations

import json
from typing import cast

import pytest

from tests.support.compaction import (
    big_results,
    compacted_spec,
    is_summary,
    long_history,
    look_up,
    lookup_turn,
    next_call,
    play_lookups,
    shown_text,
    with_usage,
)
from tests.support.machines import asks, call, completed, model_step, reloaded, saved
from understudy.errors import BudgetExceeded, ProtocolViolation
from understudy.orchestration import AgentRun, CallModel, Ruling
from understudy.orchestration.agent.compaction import view
from understudy.orchestration.agent.compaction.decisions import lasting_summary
from understudy.orchestration.agent.compaction.view import PRUNED, TASK_INTRO, is_prunable
from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.messages import ModelTurn, Part, TextPart, Usage, says, user_message
from understudy.vocabulary.runs.callbacks import RetryWithFeedback
from understudy.vocabulary.runs.compaction import SUMMARY_INTRO, Compaction
from understudy.vocabulary.runs.token_estimates import request_tokens


def kinds(run: AgentRun) -> list[str]:
    assert run.state.context is not None
    return [change.kind for change in run.state.context.news]


def summing_run() -> AgentRun:
    """Return a run whose next step asks for a summary of its history."""
    run = AgentRun(compacted_spec(prune=False), "And now?", history=long_history(20))
    assert is_summary(next_call(run))
    return run


# --- when


def test_a_run_below_the_threshold_sends_its_messages_as_they_are() -> None:
    run = AgentRun(compacted_spec(), "Hi", history=long_history(2))

    step = next_call(run)

    assert not is_summary(step)
    assert list(step.request.messages) == list(run.messages)


def test_billed_usage_decides_where_an_estimate_would_not() -> None:
    run = AgentRun(compacted_spec(context_window=2500, prune=False), "Hi", history=long_history(4))
    next_call(run)
    look_up(run, "a", turn=with_usage(asks(call("a")), input_tokens=1990, output_tokens=20))

    assert is_summary(next_call(run))


def test_an_estimate_of_what_was_added_since_counts_too() -> None:
    run = AgentRun(compacted_spec(context_window=2500, prune=False), "Hi", history=long_history(4))
    next_call(run)
    look_up(run, "a", "x" * 2400, turn=with_usage(asks(call("a")), input_tokens=1500, output_tokens=20))

    assert is_summary(next_call(run))


def test_system_prompt_and_tools_count() -> None:
    run = AgentRun(compacted_spec(prune=False, keep=0.1), "Hi", history=long_history(8), system="x" * 16_000)

    assert is_summary(next_call(run))


def test_without_a_known_window_only_a_refusal_leads_to_a_compaction() -> None:
    run = AgentRun(compacted_spec(context_window=None), "Hi", history=long_history(50))
    whole = request_tokens(next_call(run).request)

    assert run.context_overflow()

    step = next_call(run)
    assert is_summary(step)
    assert request_tokens(step.request) < whole


def test_a_summary_that_would_save_nothing_is_not_asked_for() -> None:
    run = AgentRun(compacted_spec(), "Hi", history=long_history(1), system="x" * 30_000)

    assert not is_summary(next_call(run))


# --- pruning


def test_old_results_are_left_out_of_requests_first_and_stay_in_the_messages() -> None:
    run = play_lookups(compacted_spec(), big_results(12, 2400))

    request = next_call(run).request

    assert kinds(run) == ["pruned"]
    assert PRUNED.format(length=2400) in shown_text(request)
    assert request.tool_results[0].content == "x" * 2400
    assert "left out" not in str([m.tool_results for m in run.messages])
    assert request_tokens(request) < 0.8 * 8000


def test_a_long_run_looks_again_only_at_messages_that_are_new_or_newly_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[Part] = []

    def counting(part: Part) -> bool:
        looks.append(part)
        return is_prunable(part)

    monkeypatch.setattr(view, "is_prunable", counting)
    run = AgentRun(compacted_spec(context_window=80_000), "Hi")
    for number in range(300):
        assert not is_summary(next_call(run))
        look_up(run, f"c{number}", "r" * 4_000)

    assert len([kind for kind in kinds(run) if kind == "pruned"]) > 3
    assert len(looks) < 2 * 300


def test_a_failed_result_that_is_left_out_stays_a_failed_one() -> None:
    run = play_lookups(compacted_spec(), big_results(12, 2400), is_error=True)

    request = next_call(run).request

    assert all(result.is_error for message in request.messages for result in message.tool_results)


# --- the summary


def test_the_step_says_that_it_is_for_a_summary_and_which_model_answers() -> None:
    run = summing_run()

    step = next_call(run)

    assert step.compaction is run.spec.compaction.compaction  # type: ignore[union-attr]
    assert step.request.tools == ()
    assert step.request.output is None
    assert model_step(run) == step


def test_requests_are_the_summary_and_the_latest_messages_and_the_runs_messages_stay_whole() -> None:
    run = summing_run()
    before = list(run.messages)

    while is_summary(next_call(run)):
        run.model_response(says("They counted books."))

    request = next_call(run).request
    assert request.messages[0].parts[0] == TextPart(SUMMARY_INTRO + "They counted books.")
    assert request.messages[-1].text.endswith("And now?")
    assert list(run.messages) == before
    assert kinds(run) == ["summarized"]
    run.model_response(says("Seven."))
    assert completed(run).messages == run.new_messages == (user_message("And now?"), *list(run.messages)[-1:])


def test_a_summary_counts_in_usage_and_budget_and_not_in_max_turns() -> None:
    run = summing_run()

    run.model_response(with_usage(says("Books."), input_tokens=100, output_tokens=10))

    assert run.state.turns == 0
    assert run.usage.total_tokens == 110
    assert run.account.spending.all_turns == 1


def test_a_budget_that_the_summary_uses_up_ends_the_run_before_its_turn() -> None:
    spec = compacted_spec(prune=False)
    run = AgentRun(spec, "And now?", history=long_history(20), budget=Budget(total_tokens=50))
    next_call(run)
    run.model_response(with_usage(says("Books."), input_tokens=100, output_tokens=10))

    with pytest.raises(BudgetExceeded):
        run.next_step()


def test_an_earlier_summary_is_carried_on_into_the_next_one() -> None:
    run = summing_run()
    while is_summary(next_call(run)):
        run.model_response(says("The first summary."))
    run.model_response(says("Seven."))
    assert run.state.context is not None

    seen = [run.state.context.summary]
    history = [user_message(SUMMARY_INTRO + seen[0]), *long_history(20)[1:]]
    again = AgentRun(compacted_spec(prune=False), "More?", history=history)

    assert "The first summary." in next_call(again).request.messages[0].text


def test_the_input_stays_word_for_word_after_a_summary_of_what_followed_it() -> None:
    run = play_lookups(compacted_spec(prune=False), big_results(30, 2400), input="Count all books, please.")

    request = next_call(run).request

    assert run.state.context is not None
    assert run.state.context.upto > 1
    assert request.messages[0].parts[1:] == (TextPart(TASK_INTRO), TextPart("Count all books, please."))
    assert request.messages[1].role == "assistant"


def test_an_input_too_long_to_be_kept_is_summed_up_with_what_followed_it() -> None:
    run = play_lookups(compacted_spec(prune=False), big_results(30, 2400), input="Long. " * 2000)

    assert run.state.context is not None
    assert not run.state.context.keeps_input
    assert TASK_INTRO not in shown_text(next_call(run).request)


def test_the_given_history_is_summed_up_before_anything_of_the_run_is() -> None:
    run = AgentRun(compacted_spec(prune=False), "And now?", history=long_history(24))
    while is_summary(next_call(run)):
        run.model_response(says("The history."))
    assert run.state.context is not None
    assert run.state.context.upto <= run.state.start

    lasting = lasting_summary(run.state)

    assert lasting is not None
    assert (lasting.text, lasting.covers) == ("The history.", run.state.context.upto)
    assert (lasting.first, lasting.last) == (run.messages[0], run.messages[lasting.covers - 1])
    assert run.messages[lasting.covers].role == "user"


def test_the_summary_of_the_history_outlives_one_that_takes_in_the_runs_own_turns() -> None:
    run = play_lookups(compacted_spec(prune=False), big_results(40, 2400), history=long_history(20))

    assert run.state.context is not None
    assert run.state.context.upto > run.state.start
    lasting = lasting_summary(run.state)
    assert lasting is not None
    assert lasting.covers == run.state.start


def test_a_long_history_is_summed_up_in_several_rounds_that_each_fit() -> None:
    run = AgentRun(compacted_spec(prune=False), "And now?", history=long_history(200))
    rounds = 0

    while is_summary(step := next_call(run)):
        assert request_tokens(step.request) <= 8000
        rounds += 1
        run.model_response(says(f"Round {rounds}."))

    assert rounds > 2
    assert kinds(run) == ["summarized"]
    assert f"Round {rounds}." in step.request.messages[0].text


# --- failures


@pytest.mark.parametrize(
    "turn",
    [
        says(""),
        says("  "),
        lookup_turn("a"),
        ModelTurn((TextPart("Half"),), finish_reason="blocked"),
        ModelTurn((TextPart("Half"),), finish_reason="paused"),
        ModelTurn((TextPart("Half"),), finish_reason="other"),
        ModelTurn((), finish_reason="length"),
    ],
)
def test_an_answer_that_is_no_summary_loses_nothing_and_the_run_goes_on(turn: ModelTurn) -> None:
    run = summing_run()

    run.model_response(turn)

    assert kinds(run) == ["failed"]
    step = next_call(run)
    assert not is_summary(step)
    assert list(step.request.messages) == list(run.messages)
    run.model_response(says("Seven."))
    assert completed(run).text == "Seven."


def test_a_model_call_that_failed_is_told_and_not_repeated_for_the_same_turn() -> None:
    run = summing_run()

    run.compaction_failed("no connection")

    assert not is_summary(next_call(run))
    assert run.state.context is not None
    assert run.state.context.news[0].problem == "no connection"


def test_a_failure_in_a_later_round_keeps_what_the_rounds_before_have_summed_up() -> None:
    run = AgentRun(compacted_spec(prune=False), "And now?", history=long_history(200))
    next_call(run)
    run.model_response(says("The first round."))
    next_call(run)

    run.compaction_failed("no connection")

    assert kinds(run) == ["summarized", "failed"]
    assert "The first round." in next_call(run).request.messages[0].text


def test_a_failed_summary_is_tried_again_once_the_conversation_has_grown() -> None:
    run = summing_run()
    run.compaction_failed("no connection")
    asked = 0
    for number in range(12):
        while is_summary(next_call(run)):
            asked += 1
            run.compaction_failed("no connection")
        look_up(run, f"c{number}", "x" * 800)

    assert 2 <= asked <= 8


def test_a_failure_that_nobody_asked_for_is_out_of_order() -> None:
    run = AgentRun(compacted_spec(), "Hi")

    with pytest.raises(ProtocolViolation):
        run.compaction_failed("no connection")


def test_callbacks_have_nothing_to_decide_about_a_summary() -> None:
    run = summing_run()

    with pytest.raises(ProtocolViolation):
        run.turn_ruled(says("Books."), Ruling("Guard", RetryWithFeedback("Again.")))
    assert run.answer_in(says("Books.")) is None
    assert run.invalid_calls(lookup_turn("a", name="lok")) == ()


# --- refusals


def test_a_refused_request_is_shortened_once_and_the_turn_is_tried_again() -> None:
    run = AgentRun(compacted_spec(context_window=1_000_000), "And now?", history=long_history(40))
    assert not is_summary(next_call(run))

    assert run.context_overflow(tokens=9000, limit=8000)

    while is_summary(next_call(run)):
        run.model_response(says("Books."))
    assert request_tokens(next_call(run).request) < 8000
    assert not run.context_overflow(tokens=9000, limit=8000)
    assert run.at_limit()


def test_a_run_whose_request_was_refused_twice_goes_on_after_extend() -> None:
    run = AgentRun(compacted_spec(), "Hi", history=long_history(3))
    next_call(run)
    assert run.context_overflow()
    run.compaction_failed("no connection")
    assert not run.context_overflow()
    again = reloaded(run)
    assert again.at_limit()

    again.extend()

    assert not again.at_limit()
    assert not is_summary(next_call(again))


def test_a_turn_that_was_taken_allows_another_refusal() -> None:
    run = AgentRun(compacted_spec(), "Hi", history=long_history(20))
    for number in range(2):
        while is_summary(next_call(run)):
            run.model_response(says("Books."))
        assert run.context_overflow()
        while is_summary(next_call(run)):
            run.model_response(says("Books."))
        look_up(run, f"c{number}", "x" * 4000)

    assert run.state.turns == 2


def test_a_refusal_of_the_request_for_a_summary_is_a_failed_summary() -> None:
    run = summing_run()

    assert run.context_overflow(tokens=9000, limit=8000)

    assert kinds(run) == ["failed"]
    assert not is_summary(next_call(run))


def test_a_run_without_compaction_does_not_go_on_after_a_refusal() -> None:
    run = AgentRun(compacted_spec(rule=None), "Hi", history=long_history(40))
    next_call(run)

    assert not run.context_overflow()
    assert not run.at_limit()


def test_an_answer_cut_off_at_the_end_of_the_window_is_dropped_and_asked_for_again() -> None:
    cut = ModelTurn((TextPart("Half an ans"),), Usage(), "length", "model_context_window_exceeded")
    run = AgentRun(compacted_spec(context_window=1_000_000), "And now?", history=long_history(40))
    next_call(run)

    run.model_response(cut)

    assert kinds(run)[-1] == "dropped"
    assert run.state.turns == 1
    while is_summary(next_call(run)):
        run.model_response(says("Books."))
    run.model_response(cut)
    assert completed(run).text == "Half an ans"


# --- saving


def test_a_run_saved_in_the_midst_of_a_compaction_goes_on_with_the_same_request() -> None:
    run = AgentRun(compacted_spec(prune=False), "And now?", history=long_history(200))
    steps = 0
    while is_summary(step := next_call(run)):
        run = reloaded(run)
        assert next_call(run) == step
        run.model_response(says("Books."))
        steps += 1

    assert steps > 2
    assert next_call(reloaded(run)).request == step.request


def test_a_run_saved_without_compaction_gets_it_from_the_present_definition() -> None:
    plain = AgentRun(compacted_spec(rule=None), "And now?", history=long_history(20))

    run = AgentRun.from_json(plain.to_json(), compacted_spec(prune=False))

    assert is_summary(next_call(run))


def test_a_summary_stays_in_requests_after_the_definition_has_lost_its_rule() -> None:
    run = summing_run()
    while is_summary(next_call(run)):
        run.model_response(says("Books."))

    loaded = AgentRun.from_json(run.to_json(), compacted_spec(rule=None))

    assert "Books." in next_call(loaded).request.messages[0].text


def test_a_pending_summary_is_given_up_after_the_definition_has_lost_its_rule() -> None:
    run = summing_run()

    loaded = AgentRun.from_json(run.to_json(), compacted_spec(rule=None))

    assert not is_summary(next_call(loaded))


def test_a_pending_summary_is_given_up_where_the_window_is_no_longer_known() -> None:
    loaded = AgentRun.from_json(summing_run().to_json(), compacted_spec(context_window=None))

    assert loaded.answer_in(says("Books.")) is None
    assert not is_summary(next_call(loaded))


@pytest.mark.parametrize(
    "changes",
    [
        {"upto": -1},
        {"upto": 1000},
        {"upto": 1},
        {"upto": 2, "summary": ""},
        {"history_upto": 1000},
        {"history_upto": 2},
        {"reach": 0},
        {"target": 41},
        {"scale": 0.5},
        {"window": 0},
        {"billed_at": 1000},
    ],
)
def test_a_saved_run_whose_summary_cannot_be_is_refused(changes: dict[str, object]) -> None:
    data = saved(summing_run())
    state = cast("dict[str, dict[str, object]]", data["state"])
    state["context"].update(changes)

    with pytest.raises(ValueError, match="not a saved run"):
        AgentRun.from_json(json.dumps(data), compacted_spec(prune=False))


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"context_window": 0}, ValueError),
        ({"context_window": 499}, ValueError),
        ({"context_window": "8000"}, TypeError),
        ({"threshold": 0}, ValueError),
        ({"threshold": 1.5}, ValueError),
        ({"threshold": True}, TypeError),
        ({"keep": 0.8}, ValueError),
        ({"keep": -0.1}, ValueError),
        ({"model": "nobody:x"}, ValueError),
        ({"model": object()}, TypeError),
        ({"prompt": " "}, ValueError),
        ({"summary_tokens": 0}, ValueError),
        ({"prune": 1}, TypeError),
    ],
)
def test_a_rule_is_checked_when_it_is_made(kwargs: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        Compaction(**kwargs)  # type: ignore[arg-type]


def test_a_call_model_step_of_an_ordinary_turn_is_for_no_summary() -> None:
    step = AgentRun(compacted_spec(), "Hi").next_step()

    assert isinstance(step, CallModel)
    assert step.compaction is None
