"""Faults in runs: who drives them, what is given up, who waits for whom."""

from __future__ import annotations

from .mutant import Mutant

RUN_RECORD = "actors/runrecord.py"
RECORD = "actors/record.py"
RUNS = "actors/runs.py"
DRIVER = "actors/driver.py"
EXECUTOR = "actors/executor.py"
HUNG = "actors/hung.py"
WATCHDOG = "actors/watchdog.py"
WAITING = "actors/waiting.py"
AWAITED = "actors/awaited.py"
TOKENS = "actors/tokens.py"
STORED = "actors/storedpauses.py"
SQLITE = "actors/sqlite_store.py"

TEST_RUNS = "tests/actors/test_runs.py"
TEST_TOOLS = "tests/actors/test_tool_calls.py"
TEST_WATCHDOG = "tests/actors/test_watchdog.py"
TEST_CIRCLES = "tests/actors/test_circles.py"
TEST_WAITING = "tests/actors/test_waiting.py"
TEST_PAUSES = "tests/actors/test_pauses.py"
TEST_STORED = "tests/actors/test_stored_pauses.py"
TEST_STORES = "tests/actors/test_stores.py"

MUTANTS = (
    # --- who drives a run
    Mutant(
        "a stale driver's result is accepted",
        RUN_RECORD,
        "if epoch != self.epoch or self.phase",
        "if self.phase",
        (f"{TEST_TOOLS}::test_what_a_hung_tool_brings_while_its_run_goes_on_is_refused_too",),
    ),
    Mutant(
        "a run that is taken over keeps its epoch",
        RUN_RECORD,
        "self.epoch += 1\n        self.driver = None",
        "self.driver = None",
        (f"{TEST_TOOLS}::test_what_a_hung_tool_brings_while_its_run_goes_on_is_refused_too",),
    ),
    Mutant(
        "a run ends twice",
        RUN_RECORD,
        'if self.phase != "running" or stale or in_time:',
        "if stale or in_time:",
        (TEST_RUNS, "tests/actors/test_interleavings.py"),
    ),
    Mutant(
        "a run that keeps failing its drivers is never poison",
        RUNS,
        "len(record.crashes) >= POISON or ",
        "",
        (f"{TEST_RUNS}::test_a_run_that_keeps_failing_its_drivers_is_poison_and_ends_with_all_its_causes",),
    ),
    Mutant(
        "a run is poison one failure too early",
        RUNS,
        "POISON = 3",
        "POISON = 2",
        (f"{TEST_RUNS}::test_a_run_that_keeps_failing_its_drivers_is_poison_and_ends_with_all_its_causes",),
    ),
    Mutant(
        "a function that returned something wrong restarts its agent",
        RUNS,
        "wrong = isinstance(cause, WrongReturn)",
        "wrong = False",
        (
            "tests/actors/test_agents_in_systems.py::test_a_function_of_the_user_s_that_returns_something_wrong_fails_its_run_and_restarts_nothing",
        ),
    ),
    Mutant(
        "what a model returned is taken for a turn",
        DRIVER,
        "return checked_turn(self._record, self._model().complete(request))",
        "return self._model().complete(request)",
        (
            "tests/actors/test_endings.py::test_a_model_that_returns_no_turn_fails_its_run_and_the_error_says_what_it_returned",
        ),
    ),
    Mutant(
        "an error that ends a run says nothing of it",
        RUN_RECORD,
        "            safely(self, describe, self, ending)",
        "            pass",
        ("tests/actors/test_run_errors.py",),
    ),
    Mutant(
        "a turn that was paid for is asked for again",
        DRIVER,
        "if turn is None:",
        "if True:",
        (f"{TEST_RUNS}::test_a_run_whose_driver_fails_goes_on_from_where_it_was_and_its_sibling_never_notices",),
    ),
    # --- what is given up
    Mutant(
        "hung work is not counted",
        HUNG,
        "self._work.append(work)",
        "pass",
        (f"{TEST_RUNS}::test_work_that_was_given_up_is_counted_until_it_comes_back",),
    ),
    Mutant(
        "work that came back is counted as hung for ever",
        HUNG,
        "if not work.returned]",
        "]",
        (f"{TEST_RUNS}::test_work_that_was_given_up_is_counted_until_it_comes_back",),
    ),
    Mutant(
        "a call that timed out is repeated although it may have happened",
        EXECUTOR,
        "return tool.idempotent and",
        "return",
        (f"{TEST_TOOLS}::test_a_call_that_timed_out_is_tried_again_only_if_the_tool_is_idempotent",),
    ),
    Mutant(
        "a cancelled run does not tell its tool",
        RUNS,
        "safely(record, hooks.cancel, record.scope, self.hung.give_up)",
        "pass",
        (f"{TEST_RUNS}::test_a_cancelled_run_tells_what_it_is_at_besides_tools",),
    ),
    Mutant(
        "the exit of a tool ends its run",
        EXECUTOR,
        "except BaseException as error:  # the tool's",
        "except Exception as error:  # the tool's",
        (f"{TEST_TOOLS}::test_a_call_that_fails_becomes_a_result_that_says_what_was_wrong",),
    ),
    Mutant(
        "what tools wrote into the session is dropped",
        RECORD,
        "overlay.commit()",
        "pass",
        (f"{TEST_TOOLS}::test_what_tools_write_is_seen_by_later_tools_and_by_the_caller",),
    ),
    Mutant(
        "the sessions of calls at once are committed in reverse",
        RECORD,
        "for _, overlay in results:",
        "for _, overlay in reversed(results):",
        (f"{TEST_TOOLS}::test_calls_at_once_do_not_see_each_other_and_the_later_call_wins",),
    ),
    Mutant(
        "the watchdog retires although a run has just joined",
        WATCHDOG,
        "self._ticking = bool(self._records)",
        "pass",
        (f"{TEST_WATCHDOG}::test_a_run_that_begins_while_the_watchdog_retires_is_watched",),
    ),
    Mutant(
        "a run that could not begin is in flight for ever",
        WATCHDOG,
        "self.unwatch(record)\n            raise",
        "raise",
        (f"{TEST_WATCHDOG}::test_a_run_does_not_begin_unwatched_and_the_next_is_watched_again",),
    ),
    Mutant(
        "one callback takes all other runs' watchdog",
        "actors/aside.py",
        "lend(_Errand(do))\n",
        "do()\n",
        (f"{TEST_WATCHDOG}::test_a_callback_of_a_run_that_timed_out_keeps_no_other_run_from_its_deadline",),
    ),
    Mutant(
        "a token is used up by a run that cannot be watched",
        RUNS,
        "self._watchdog.be_awake()",
        "pass",
        ("tests/actors/test_no_threads.py::test_a_token_stands_if_its_run_could_not_be_watched",),
    ),
    # --- who waits for whom
    Mutant(
        "a circle of waiting is not refused",
        WAITING,
        "if path is not None:\n            raise circular(*_ids(path))",
        "if False:\n            raise circular(*_ids(path or []))",
        ("tests/actors/test_wait_graphs.py::test_a_wait_is_refused_if_and_only_if_it_would_close_a_circle",),
    ),
    Mutant(
        "who waits for what waits for it by being called is not refused",
        WAITING,
        "if link.runner is runner:",
        "if False:",
        (TEST_WAITING, TEST_CIRCLES),
    ),
    Mutant(
        "a wait that ended stays in the graph",
        WAITING,
        "finally:\n            self.end(wait)",
        "finally:\n            pass",
        (f"{TEST_CIRCLES}::test_a_wait_that_ended_by_its_timeout_is_forgotten",),
    ),
    Mutant(
        "a tool that was given up still holds its run up",
        AWAITED,
        "return scope is None or not (scope.cancelled or scope.remaining() == 0.0)",
        "return True",
        (f"{TEST_CIRCLES}::test_a_tool_that_was_given_up_holds_nobody_up",),
    ),
    # --- tokens
    Mutant(
        "a token works twice",
        TOKENS,
        "record = self._paused.pop(token, None)\n            self._limits",
        "record = self._paused.get(token)\n            self._limits",
        (f"{TEST_PAUSES}::test_a_token_works_once",),
    ),
    Mutant(
        "an answer that does not fit uses the token up",
        TOKENS,
        "self._give_back(token, record, is_limit=is_limit)",
        "pass",
        (f"{TEST_PAUSES}::test_an_answer_of_the_wrong_kind_is_refused_and_the_token_stands",),
    ),
    # --- tokens of stored runs
    Mutant(
        "two who bring a stored token both go on",
        STORED,
        'if not self._ask(what, lambda: _yes_or_no("take"',
        'if None is self._ask(what, lambda: _yes_or_no("take"',
        (f"{TEST_STORED}::test_of_two_who_bring_one_token_one_goes_on",),
    ),
    Mutant(
        "the secret of a stored token does not matter",
        STORED,
        "return same and self.revision == kept.revision",
        "return self.revision == kept.revision",
        (f"{TEST_STORED}::test_a_token_that_is_not_quite_right_is_unknown",),
    ),
    Mutant(
        "the token of an earlier pause is no used one",
        STORED,
        "return self.revision < kept.revision",
        "return False",
        (f"{TEST_STORED}::test_each_pause_of_a_run_has_a_token_and_only_the_last_one_works",),
    ),
    Mutant(
        "a run that ended while it was stored waits for ever",
        RUNS,
        "outcome.status, epoch=epoch)\n        if token and not ended:",
        "outcome.status, epoch=epoch)\n        if token and not ended and False:",
        (f"{TEST_STORED}::test_a_run_that_ends_while_it_is_stored_leaves_no_run_that_waits",),
    ),
    Mutant(
        "a cancelled run leaves its text in the store",
        RUNS,
        "safely(record, aside, lambda: safely(record, self._tokens.over, record))",
        "pass",
        (f"{TEST_STORED}::test_a_run_under_way_has_its_text_in_the_store_until_it_is_cancelled",),
    ),
    Mutant(
        "SQLite takes a run that does not wait",
        SQLITE,
        "revision = :revision AND state = 'waiting'",
        "revision = :revision",
        (f"{TEST_STORES}::test_a_run_is_taken_once_and_its_text_is_kept",),
    ),
    Mutant(
        "SQLite replaces a run that waits",
        SQLITE,
        "WHERE state != 'waiting' AND revision",
        "WHERE revision",
        (f"{TEST_STORES}::test_a_run_that_waits_is_not_replaced",),
    ),
)
