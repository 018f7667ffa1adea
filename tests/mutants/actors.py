"""Faults in actors: their mailboxes, their supervision, who waits for whom, and what several futures come to."""

from __future__ import annotations

from .mutant import Mutant

MAILBOX = "actors/cells/mailbox.py"
CELL = "actors/cells/cell.py"
REPLY = "actors/threads/promise.py"
DECIDER = "actors/actor/supervisor.py"
SUPERVISOR = "actors/actor/supervisor.py"
RESTARTS = "orchestration/supervision/restarts.py"
GROUP_MACHINE = "orchestration/supervision/group_machine.py"
GROUP_STATE = "orchestration/supervision/group_state.py"
WAIT_GRAPH = "actors/waiting/graph.py"
MEMBERS = "actors/waiting/members.py"
ENDINGS = "actors/waiting/endings.py"

TEST_CELL = "tests/actors/test_cell.py"
TEST_GROUPS = "tests/actors/test_supervision.py"
TEST_RESTARTS = "tests/orchestration/test_supervision.py"
TEST_MACHINE = "tests/orchestration/test_group_machine.py"
TEST_CYCLES = "tests/actors/test_cycles.py"
TEST_MERGES = "tests/actors/test_merging.py"

MUTANTS = (
    # --- mailboxes
    Mutant(
        "a mailbox is checked and filled under two locks",
        MAILBOX,
        "(self._over or not system):\n                return CLOSED\n            if system:",
        "(self._over or not system):\n                return CLOSED\n        with self._lock:\n            if system:",
        ("tests/actors/test_mailbox.py",),
    ),
    Mutant(
        "a stopping actor forgets what waits",
        CELL,
        "self.finish(envelope, Fate.DEAD, error=error)",
        "pass",
        (f"{TEST_CELL}::test_a_stopped_actor_answers_what_waits_and_what_comes_with_agent_down",),
    ),
    Mutant(
        "a cancelled message is handled anyway",
        CELL,
        "envelope.promise is not None and envelope.promise.done:",
        "False:",
        ("tests/actors/test_actors.py::test_an_ask_that_is_cancelled_before_its_turn_is_never_handled",),
    ),
    Mutant(
        "an exit in one actor escapes",
        CELL,
        "except BaseException as cause:  # also SystemExit",
        "except Exception as cause:  # but not SystemExit",
        (f"{TEST_CELL}::test_a_failure_reaches_the_asker_with_its_cause_and_the_next_message_meets_a_fresh_behaviour",),
    ),
    Mutant(
        "a reply completes twice",
        REPLY,
        "if self._done:\n                return False",
        "if False:\n                return False",
        ("tests/actors/test_promise.py",),
    ),
    # --- supervision
    Mutant(
        "one more restart than allowed is borne",
        RESTARTS,
        ">= self._strategy.max_restarts",
        "> self._strategy.max_restarts",
        (TEST_RESTARTS,),
    ),
    Mutant(
        "each failure of one run counts",
        RESTARTS,
        "if run and any(run == other for _, other in self._spent):",
        "if False:",
        (f"{TEST_RESTARTS}::test_the_failures_of_one_run_in_a_period_take_one_restart",),
    ),
    Mutant(
        "a temporary child is restarted",
        RESTARTS,
        'if restart == "temporary":',
        "if False:",
        (TEST_RESTARTS,),
    ),
    Mutant(
        "a group that failed too often tells nobody above",
        SUPERVISOR,
        "case Escalate() if self._parent is not None:",
        "case Escalate() if False:",
        (f"{TEST_GROUPS}::test_a_group_that_fails_too_often_is_restarted_by_the_group_above",),
    ),
    Mutant(
        "a group that is begun anew goes on with earlier begins and restarts",
        GROUP_MACHINE,
        "    group.supersede()  # also",
        "    # also",
        (TEST_MACHINE,),
    ),
    Mutant(
        "a halted group forgets to answer when a member escalates",
        GROUP_STATE,
        'frozenset({"begin", "restart", "start again"})',
        'frozenset({"begin", "restart", "start again", "halt"})',
        (TEST_MACHINE,),
    ),
    Mutant(
        "a member that begins does not ask whether its round is current",
        SUPERVISOR,
        "self._group.is_current(round) and above()",
        "True",
        (f"{TEST_GROUPS}::test_a_group_that_waits_for_its_restart_when_it_is_given_up_does_not_begin",),
    ),
    Mutant(
        "a decider that fails restarts",
        DECIDER,
        '    return "escalate"\n',
        '    return "restart"\n',
        (f"{TEST_GROUPS}::test_a_decider_that_returns_no_directive_escalates_and_says_so",),
    ),
    # --- the wait graph
    Mutant(
        "a cycle of waits is not refused",
        WAIT_GRAPH,
        "if path is not None:\n            raise circular(*_ids(path))",
        "if False:\n            raise circular(*_ids(path or []))",
        ("tests/actors/test_wait_graphs.py::test_a_wait_is_refused_if_and_only_if_it_would_close_a_circle",),
    ),
    Mutant(
        "a wait for the caller's own caller is not refused",
        WAIT_GRAPH,
        "if link.runner is runner:",
        "if False:",
        ("tests/actors/test_waiting.py", TEST_CYCLES),
    ),
    Mutant(
        "a wait that ended stays in the graph",
        WAIT_GRAPH,
        "finally:\n            self.end(wait)",
        "finally:\n            pass",
        (f"{TEST_CYCLES}::test_a_wait_that_ended_by_its_timeout_is_forgotten",),
    ),
    # --- merges
    Mutant(
        "the first to fail wins the race",
        ENDINGS,
        "self._ends.failed.append(place)",
        "self._ends.succeeded.append(place)",
        (f"{TEST_MERGES}::test_an_error_does_not_end_the_race",),
    ),
    Mutant(
        "a pause wins the race",
        ENDINGS,
        "self._ends.paused.append(place)",
        "self._ends.succeeded.append(place)",
        (f"{TEST_MERGES}::test_a_paused_run_has_not_won_while_another_one_may",),
    ),
    Mutant(
        "the losers of a race go on",
        MEMBERS,
        "member.cancel()",
        "pass",
        (f"{TEST_MERGES}::test_the_first_value_wins_and_the_others_are_cancelled",),
    ),
)
