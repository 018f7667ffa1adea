"""Faults in what callbacks, criteria and rules for invalid calls decide."""

from __future__ import annotations

from .mutant import Mutant

MOMENTS = "actors/moments.py"
VERDICTS = "actors/verdicts.py"
EXECUTOR = "actors/executor.py"
RULINGS = "orchestration/rulings.py"
ROUNDS = "orchestration/rounds.py"
RUN = "orchestration/run.py"
CALLBACKS = "understudy/callbacks.py"
GUARDRAILS = "understudy/guardrails.py"
LOGS = "understudy/logs.py"
CRITERIA = "understudy/criteria.py"

TEST_CALLBACKS = "tests/actors/test_callbacks.py"
TEST_GUARDRAILS = "tests/actors/test_guardrails.py"
TEST_INVALID = "tests/actors/test_invalid_calls.py"
TEST_RULINGS = "tests/orchestration/test_rulings.py"
TEST_CRITERIA = "tests/vocabulary/test_criteria.py"
TEST_RUN_CRITERIA = "tests/actors/test_criteria.py"

MUTANTS = (
    Mutant(
        "callbacks behind the one that decides are asked",
        MOMENTS,
        "                record.note_answer(self._epoch, question, ruling, session)\n                return ruling\n",
        "                record.note_answer(self._epoch, question, ruling, session)\n                continue\n",
        (f"{TEST_CALLBACKS}::test_callbacks_are_asked_in_order_and_none_after_the_first_that_decides",),
    ),
    Mutant(
        "a callback that has answered is asked again after another one failed",
        MOMENTS,
        "for number in range(cast(int, known), len(callbacks)):",
        "for number in range(len(callbacks)):",
        (f"{TEST_CALLBACKS}::test_a_callback_that_fails_is_asked_again_and_nothing_that_was_done_is_done_twice",),
    ),
    Mutant(
        "what a callback writes to the session is lost",
        "actors/record.py",
        "            if session is not None:\n                session.commit()\n            self.answered",
        "            self.answered",
        (f"{TEST_CALLBACKS}::test_a_callback_sees_the_run_and_what_it_writes_to_the_session_is_kept",),
    ),
    Mutant(
        "an answer that the moment does not take lets the call through",
        CALLBACKS,
        "return Block(fault), fault",
        "return _CONTINUE, fault",
        (f"{TEST_CALLBACKS}::test_a_call_does_not_run_if_the_answer_before_it_is_none_that_is_taken_there",),
    ),
    Mutant(
        "a rejected turn is fed again instead of asking the model",
        MOMENTS,
        "        self._record.unfed = None\n",
        "",
        (f"{TEST_CALLBACKS}::test_a_rejected_answer_is_tried_again_with_the_feedback_and_not_shown_to_the_model",),
    ),
    Mutant(
        "an approved call is not guarded once more",
        ROUNDS,
        "[call_id for call_id in round_.guarded if call_id not in approved]",
        "[call_id for call_id in round_.guarded]",
        (f"{TEST_RULINGS}::test_a_call_that_was_approved_and_edited_can_still_be_blocked",),
    ),
    Mutant(
        "an approval does not count when the guard asks for one again",
        RULINGS,
        "call_id in round_.approved or call_id in round_.questions",
        "call_id in round_.questions",
        (f"{TEST_RULINGS}::test_an_approved_call_is_guarded_once_more_and_approval_counts_as_given",),
    ),
    Mutant(
        "a blocked call still waits for a person",
        RULINGS,
        "    _wait(round_, result.call_id, False)\n",
        "",
        (f"{TEST_RULINGS}::test_nobody_is_asked_to_approve_a_blocked_call",),
    ),
    Mutant(
        "a rewritten call needs no approval any more",
        RULINGS,
        "            _wait(round_, call.id, must_wait)\n",
        "            _wait(round_, call.id, False)\n",
        (f"{TEST_RULINGS}::test_a_rewritten_call_is_still_one_that_a_person_must_approve",),
    ),
    Mutant(
        "results are reviewed while calls are still to run",
        RULINGS,
        "    if round_.pending():\n        return ()\n",
        "",
        (
            f"{TEST_RULINGS}::test_results_are_reviewed_in_call_order_once_nothing_is_to_run_and_before_they_are_in_the_history",
        ),
    ),
    Mutant(
        "results go into the history before callbacks see them",
        RUN,
        "if not self._spec.watched:  # else callbacks see the results first, and may change them",
        "if True:",
        (
            f"{TEST_RULINGS}::test_results_are_reviewed_in_call_order_once_nothing_is_to_run_and_before_they_are_in_the_history",
        ),
    ),
    Mutant(
        "a model that is always rejected is asked for ever",
        RULINGS,
        "    state.rejections += 1\n",
        "",
        (f"{TEST_RULINGS}::test_a_model_that_is_rejected_for_ever_does_not_run_for_ever",),
    ),
    Mutant(
        "an aborted round leaves calls without an answer",
        ROUNDS,
        '        round_.results.setdefault(call.id, error_result(call, "not_run", why))\n',
        "        pass\n",
        (f"{TEST_RULINGS}::test_an_abort_answers_every_call_and_the_first_in_call_order_counts",),
    ),
    Mutant(
        "an input is looked at after the model has had it",
        GUARDRAILS,
        "if request.turn > 1:",
        "if request.turn < 2:",
        (f"{TEST_GUARDRAILS}::test_an_input_that_is_rejected_never_reaches_the_model",),
    ),
    Mutant(
        "what was said is in the log without being asked for",
        LOGS,
        "if self._contents:",
        "if True:",
        (f"{TEST_GUARDRAILS}::test_what_was_said_stays_out_of_the_log",),
    ),
    Mutant(
        "arguments are validated twice",
        EXECUTOR,
        "checked = order.record.checked.pop(id(given), None)",
        "checked = None",
        (f"{TEST_INVALID}::test_arguments_are_validated_once",),
    ),
    Mutant(
        "attempts share what one of them may have changed",
        EXECUTOR,
        "order.record.checked.pop(id(given), None)",
        "order.record.checked.get(id(given))",
        (f"{TEST_INVALID}::test_attempts_do_not_share_what_an_earlier_one_may_have_changed",),
    ),
    Mutant(
        "a person is asked about a call that cannot run",
        VERDICTS,
        'return {"problems": problems} if problems else NOTHING',
        "return NOTHING",
        (f"{TEST_INVALID}::test_a_person_is_not_asked_to_approve_a_call_that_cannot_run",),
    ),
    Mutant(
        "a validator that fails is the agent's failure",
        VERDICTS,
        "    except BaseException:  # a validator failed, and does so again where the call is made: as a failure of the tool\n",
        "    except ZeroDivisionError:\n",
        (f"{TEST_INVALID}::test_a_validator_that_fails_is_the_tools_failure_and_not_the_agents",),
    ),
    Mutant(
        "the arguments of a tool in a process are validated in this one",
        VERDICTS,
        ' and tool.isolation != "process":',
        ":",
        (f"{TEST_INVALID}::test_the_arguments_of_a_tool_in_a_process_are_checked_there_and_nowhere_else",),
    ),
    Mutant(
        "continue messages do not count for the limit",
        CRITERIA,
        "if ctx.iterations + ctx.continues >= self.limit else False",
        "if ctx.iterations >= self.limit else False",
        (f"{TEST_CRITERIA}::test_rounds_and_continue_messages_count_together",),
    ),
    Mutant(
        "a question to a person is judged like an answer",
        "orchestration/turns.py",
        "return spec.criteria and not is_question(turn.text or turn.refusal)",
        "return spec.criteria",
        (f"{TEST_RUN_CRITERIA}::test_a_question_to_a_person_is_not_judged",),
    ),
)
