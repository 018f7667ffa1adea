"""Faults in what is decided: what several futures come to, and what a run does next."""

from __future__ import annotations

from .mutant import Mutant

FUTURE = "actors/future.py"
MERGING = "actors/merging.py"
LIMITS = "orchestration/limits.py"
ROUNDS = "orchestration/rounds.py"
CALLS = "orchestration/calls.py"
STATE = "orchestration/state.py"
TURNS = "orchestration/turns.py"
OUTPUTS = "orchestration/outputs.py"

TEST_MERGING = "tests/actors/test_merging.py"
TEST_RUN = "tests/orchestration/test_run.py"
TEST_LIMITS = "tests/orchestration/test_limits.py"
TEST_OUTPUTS = "tests/orchestration/test_typed_answers.py"
TEST_APPROVALS = "tests/orchestration/test_approvals.py"

MUTANTS = (
    # --- several futures
    Mutant(
        "the first to fail wins the race",
        MERGING,
        "if isinstance(ending, Value) and not issubclass(type(ending.value), _PAUSES):",
        "if not isinstance(ending, Value) or not issubclass(type(ending.value), _PAUSES):",
        (f"{TEST_MERGING}::test_an_error_does_not_end_the_race",),
    ),
    Mutant(
        "a pause wins the race",
        MERGING,
        " and not issubclass(type(ending.value), _PAUSES)",
        "",
        (f"{TEST_MERGING}::test_a_paused_run_has_not_won_while_another_one_may",),
    ),
    Mutant(
        "values are collected in the order they come in",
        MERGING,
        "self._endings[place] = ending",
        "self._endings[self._endings.index(None)] = ending",
        (f"{TEST_MERGING}::test_values_stand_in_the_order_of_the_futures_whatever_the_order_they_come_in",),
    ),
    Mutant(
        "losers go on",
        FUTURE,
        "member.cancel()",
        "pass",
        (f"{TEST_MERGING}::test_the_first_value_wins_and_the_others_are_cancelled",),
    ),
    Mutant(
        "a race that is decided is decided again",
        FUTURE,
        "self._rule = None\n            self._cancelled",
        "self._cancelled",
        (f"{TEST_MERGING}::test_what_is_done_cannot_be_cancelled",),
    ),
    Mutant(
        "several futures have no deadline together",
        FUTURE,
        "self._set_alarm(began + timeout, timeout)",
        "pass",
        (f"{TEST_MERGING}::test_a_callback_hears_of_the_deadline_though_nobody_waits",),
    ),
    # --- the machine of a run
    Mutant(
        "one more round than allowed runs",
        LIMITS,
        "if state.iterations >= state.max_iterations:",
        "if state.iterations > state.max_iterations:",
        (TEST_LIMITS,),
    ),
    Mutant(
        "one more model call than allowed is made",
        LIMITS,
        "if state.turns >= state.max_turns:\n        raise MaxIterationsExceeded",
        "if state.turns > state.max_turns:\n        raise MaxIterationsExceeded",
        (TEST_LIMITS,),
    ),
    Mutant(
        "a round that reached the limit runs when it is asked for again",
        LIMITS,
        "    if state.iterations >= state.max_iterations:\n",
        "    round_.admitted = True\n    if state.iterations >= state.max_iterations:\n",
        (TEST_LIMITS,),
    ),
    Mutant(
        "a call is answered twice",
        ROUNDS,
        "unanswered.pop(result.call_id, None) is None",
        "unanswered.get(result.call_id) is None",
        (f"{TEST_RUN}::test_results_that_do_not_fit_are_refused_and_change_nothing",),
    ),
    Mutant(
        "results stand in the order they come in",
        STATE,
        "tuple([self.results[call.id] for call in self.calls])",
        "tuple(self.results.values())",
        (f"{TEST_RUN}::test_results_in_any_order_make_one_message_in_call_order",),
    ),
    Mutant(
        "a rule that nobody evaluated lets a call run",
        CALLS,
        "approvals.get(position, True)",
        "approvals.get(position, False)",
        (TEST_APPROVALS,),
    ),
    Mutant(
        "calls of a blocked turn run",
        CALLS,
        'if turn.finish_reason == "blocked":',
        "if False:",
        (f"{TEST_RUN}::test_of_a_blocked_turn_nothing_runs_and_every_call_is_answered",),
    ),
    Mutant(
        "a slip is taken for a decision",
        ROUNDS,
        "if not isinstance(decision, (Approve, Reject)):",
        "if False:",
        (f"{TEST_APPROVALS}::test_what_is_no_decision_is_never_taken_for_a_yes",),
    ),
    Mutant(
        "the model is asked to go on without an end",
        TURNS,
        "elif state.continues < state.max_continues:",
        "elif True:",
        (f"{TEST_RUN}::test_after_the_last_continue_message_the_run_is_incomplete_and_not_failed",),
    ),
    # --- typed answers
    Mutant(
        "a bad answer is sent back once too often",
        OUTPUTS,
        "len(state.problems) > state.max_output_retries",
        "len(state.problems) > state.max_output_retries + 1",
        (f"{TEST_OUTPUTS}::test_a_model_is_asked_again_exactly_as_often_as_it_may",),
    ),
    Mutant(
        "an answer is taken that nobody checked",
        TURNS,
        "spec.output is not None and output_problem is None and (",
        "spec.output is not None and output_problem == 0 and (",
        (f"{TEST_OUTPUTS}::test_an_answer_that_nobody_checked_is_not_taken",),
    ),
    Mutant(
        "calls beside the final answer stay without a result",
        OUTPUTS,
        'results.append(error_result(each, "not_run", NOT_RUN))',
        "pass",
        (f"{TEST_OUTPUTS}::test_calls_beside_the_final_one_are_not_run_and_all_are_answered_in_call_order",),
    ),
)
