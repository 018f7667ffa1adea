"""Faults in runs: who drives them, who may let them go on, when they begin, what they spend, and what they let out."""

from __future__ import annotations

from .mutant import Mutant

RUN_RECORD = "actors/runs/record.py"
OWNERSHIP = "actors/runs/ownership.py"
ACTOR = "actors/runs/run_actor.py"
RUN_MANAGER = "actors/system/run_manager.py"
TOKENS = "actors/pauses/tokens.py"
STORED_PAUSES = "actors/pauses/stored_pauses.py"
TURNS = "orchestration/agent/turns.py"
ROUNDS = "orchestration/agent/rounds.py"
RULINGS = "orchestration/agent/rulings.py"
SEATS = "actors/cells/seated_cell.py"
LIMITS = "orchestration/agent/next_step.py"

TEST_RUNS = "tests/actors/test_runs.py"
TEST_TAKEN_AWAY = (
    "tests/actors/test_overdue.py::test_what_a_call_brings_in_the_moment_in_which_its_run_is_taken_away_is_not_taken"
)
TEST_RUN_JOURNAL = "tests/actors/test_run_journal.py"
TEST_STORED_PAUSES = "tests/actors/test_stored_pauses.py"
TEST_CONVERSATIONS = "tests/actors/test_conversations.py"
TEST_SCENARIOS = "tests/orchestration/test_scenarios.py"

MUTANTS = (
    # --- epochs and stale works
    Mutant(
        "a work that was given up goes on",
        "actors/runs/agent_record.py",
        "if epoch != self.epoch or self.phase",
        "if self.phase",
        (
            "tests/actors/test_invalid_calls.py::test_a_validator_that_comes_back_after_it_was_given_up_brings_nobody_to_be_asked_again",
        ),
    ),
    Mutant(
        "a work that was given up is taken",
        ACTOR,
        "if work.epoch != self.epoch:",
        "if work.epoch < 0:",
        (TEST_TAKEN_AWAY,),
    ),
    Mutant(
        "a run that is taken over keeps its epoch",
        OWNERSHIP,
        "self.epoch += 1\n        self.in_hand = None",
        "self.in_hand = None",
        (TEST_TAKEN_AWAY,),
    ),
    Mutant(
        "a run ends twice",
        RUN_RECORD,
        'if self.phase != "running" or stale or in_time or is_written:',
        "if stale or in_time or is_written:",
        (TEST_RUNS, "tests/actors/test_interleavings.py"),
    ),
    Mutant(
        "a turn that was paid for is asked for again",
        "actors/runs/model_call.py",
        "model = model_of(run, own) if turn is None else None",
        "model = model_of(run, own)",
        (
            "tests/actors/test_callbacks.py::test_a_callback_that_fails_is_asked_again_and_nothing_that_was_done_is_done_twice",
        ),
    ),
    # --- tokens, and approvals
    Mutant(
        "a token works twice",
        TOKENS,
        "self._forget(token)\n        _remember(self._used",
        "_remember(self._used",
        ("tests/actors/test_pauses.py::test_a_token_works_once",),
    ),
    Mutant(
        "a stored token works for each of two at once",
        STORED_PAUSES,
        "if not self._ask(what, lambda: self._take(found, hold, accept))",
        "if None is self._ask(what, lambda: self._take(found, hold, accept))",
        (f"{TEST_STORED_PAUSES}::test_of_two_who_bring_one_token_one_goes_on",),
    ),
    Mutant(
        "a worker whose lease is another's commits",
        "actors/stores/pauses.py",
        "state = 'waiting' AND holder = :holder",
        "state = 'waiting' AND holder IS NOT NULL",
        ("tests/actors/test_leases.py::test_an_entry_under_a_lease_waits_and_is_nobody_elses",),
    ),
    Mutant(
        "a process that lost its run stores a pause of it",
        "actors/journal/run_journal.py",
        "if self._claim is not None and not self._table.holds(sql, self._claim)",
        "if self._claim is None",
        (f"{TEST_RUN_JOURNAL}::test_a_process_neither_stores_nor_closes_a_pause_of_a_run_that_another_one_took_over",),
    ),
    Mutant(
        "a turn in memory changes the run that its token stands for",
        TOKENS,
        "yield waiting.record if hold is None else waiting.record.copied()",
        "yield waiting.record",
        ("tests/actors/test_turns.py::test_an_interrupt_gives_the_token_back_and_the_turn_is_done_from_its_beginning",),
    ),
    Mutant(
        "the secret of a stored token does not matter",
        STORED_PAUSES,
        "return same and self.revision == kept.revision",
        "return self.revision == kept.revision",
        (f"{TEST_STORED_PAUSES}::test_a_token_that_is_not_quite_right_is_unknown",),
    ),
    Mutant(
        "a slip is taken for a decision",
        ROUNDS,
        "if not isinstance(decision, (Approve, Reject)):",
        "if False:",
        ("tests/orchestration/test_approvals.py::test_what_is_no_decision_is_never_taken_for_a_yes",),
    ),
    Mutant(
        "a rule that nobody evaluated lets a call run",
        TURNS,
        "approvals.get(position, True)",
        "approvals.get(position, False)",
        ("tests/orchestration/test_approvals.py",),
    ),
    Mutant(
        "a rewritten call needs no approval any more",
        RULINGS,
        "            _wait(round_, call.id, must_wait)\n",
        "            _wait(round_, call.id, False)\n",
        ("tests/orchestration/test_rulings.py::test_a_rewritten_call_is_still_one_that_a_person_must_approve",),
    ),
    # --- admission and seats
    Mutant(
        "one call more than there are seats runs",
        SEATS,
        "len(self._open) + len(self._hung) < self.seats",
        "len(self._open) + len(self._hung) <= self.seats",
        ("tests/actors/test_seated_cell.py",),
    ),
    Mutant(
        "a run waits for its admission with its conversation in hand",
        RUN_MANAGER,
        "self._admission = Admission(settings.max_runs, self._admitted)",
        "self._admission = Admission(settings.max_runs, lambda record: start(record, record.epoch))",
        (f"{TEST_CONVERSATIONS}::test_runs_of_one_conversation_come_one_after_another_in_their_order",),
    ),
    Mutant(
        "a run that ends keeps its conversation",
        RUN_MANAGER,
        "        safely(record, self.conversations.leave, record)\n",
        "",
        (f"{TEST_CONVERSATIONS}::test_a_run_that_pauses_or_fails_gives_its_conversation_back",),
        hangs=True,
    ),
    # --- budgets
    Mutant(
        "a model call begins although the budget is spent",
        LIMITS,
        "    if refusal is not None:\n        raise refusal\n",
        "",
        (TEST_SCENARIOS,),
    ),
    Mutant(
        "the calls of a round are not counted before they run",
        LIMITS,
        "    account.take_calls(round_.open_calls())\n",
        "",
        (TEST_SCENARIOS,),
    ),
    # --- secrets
    Mutant(
        "a recording holds the keys of the environment",
        "providers/tape/redaction.py",
        "keys = [*keys_that_are_set(), *[",
        "keys = [*[",
        ("tests/providers/test_redaction.py::test_keys_in_the_environment_are_hidden",),
    ),
    Mutant(
        "headers of a server are logged",
        "providers/http/attempt.py",
        "record.msg = _cut(record.msg)",
        "pass",
        (
            "tests/cli/test_canaries_on_the_wire.py::test_what_a_server_sets_and_sends_in_headers_stays_out_of_logs_and_errors",
        ),
    ),
    Mutant(
        "a key stays in the context of an error",
        "providers/http/credentials.py",
        "left += [each.__cause__, each.__context__]",
        "left += [each.__cause__]",
        ("tests/cli/test_canaries.py::test_no_canary_comes_out_of_runs_that_end_in_every_way",),
    ),
    Mutant(
        "the log holds what was said without being asked for",
        "understudy/run_logging.py",
        "if self._contents:",
        "if True:",
        ("tests/actors/test_guardrails.py::test_what_was_said_stays_out_of_the_log",),
    ),
)
