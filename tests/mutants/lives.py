"""Faults in what happens to actors: restarts, groups, ends, watchers and timers."""

from __future__ import annotations

from .mutant import Mutant

ACTORCELL = "actors/actorcell.py"
LIFECYCLE = "actors/lifecycle.py"
SEAT = "actors/seat.py"
FAMILY = "actors/family.py"
COMMANDS = "actors/commands.py"
DIRECTORY = "actors/directory.py"
TIMERS = "actors/timers.py"
CLOCKWORK = "actors/clockwork.py"
RULES = "orchestration/supervision.py"

TEST_ACTORS = "tests/actors/test_actors.py"
TEST_GROUPS = "tests/actors/test_supervision.py"
TEST_TIMERS = "tests/actors/test_timers.py"
TEST_CLOCKWORK = "tests/actors/test_clockwork.py"
TEST_NO_THREADS = "tests/actors/test_no_threads.py"
TEST_RULES = "tests/orchestration/test_supervision.py"

MUTANTS = (
    # --- the rules of supervision
    Mutant(
        "one more restart than allowed is borne",
        RULES,
        ">= self._strategy.max_restarts",
        "> self._strategy.max_restarts",
        (TEST_RULES,),
    ),
    Mutant(
        "the window of restarts never slides",
        RULES,
        "while self._spent and now",
        "while False and now",
        (TEST_RULES,),
    ),
    Mutant(
        "the end of the period is not part of it",
        RULES,
        "> self._strategy.within",
        ">= self._strategy.within",
        (TEST_RULES,),
    ),
    Mutant(
        "rest for one restarts earlier siblings too",
        RULES,
        "tuple(children[children.index(failed) :])",
        "tuple(children)",
        (TEST_RULES,),
    ),
    Mutant(
        "one for all forgets the one that failed",
        RULES,
        "tuple(children)\n",
        "tuple([child for child in children if child != failed])\n",
        (TEST_RULES,),
    ),
    Mutant(
        "one for one restarts all",
        RULES,
        "return (failed,)",
        "return tuple(children)",
        (TEST_RULES,),
    ),
    Mutant(
        "a temporary child is restarted",
        RULES,
        'if restart == "temporary":',
        "if False:",
        (TEST_RULES,),
    ),
    Mutant(
        "a backoff is not doubled",
        RULES,
        "first * 2.0 ** (len(self._spent or ()) - 1)",
        "first",
        (TEST_RULES,),
    ),
    Mutant(
        "a renewed budget is still spent",
        RULES,
        'afresh."""\n        self._spent = None',
        'afresh."""',
        (TEST_RULES,),
    ),
    # --- groups
    Mutant(
        "a group is halted first to last",
        FAMILY,
        "_one_by_one(reversed(members), halt, then)",
        "_one_by_one(iter(members), halt, then)",
        (f"{TEST_GROUPS}::test_who_is_restarted_and_in_which_order",),
    ),
    Mutant(
        "a group is stopped first to last",
        FAMILY,
        "reversed(members), lambda member, stopped",
        "iter(members), lambda member, stopped",
        (f"{TEST_GROUPS}::test_a_group_is_stopped_last_first_each_after_the_one_before",),
    ),
    Mutant(
        "a group that failed too often tells nobody above",
        FAMILY,
        "if self._parent is not None:",
        "if False:",
        (f"{TEST_GROUPS}::test_a_group_that_fails_too_often_is_restarted_by_the_group_above",),
    ),
    Mutant(
        "a failure during a regrouping is forgotten",
        FAMILY,
        "self._next += (member,)",
        "pass",
        (f"{TEST_GROUPS}::test_a_member_that_fails_again_before_the_last_one_has_begun_is_restarted_again",),
    ),
    Mutant(
        "a sibling on its way to a new object spends the budget again",
        FAMILY,
        "(member in self._unbegun and not starting):",
        "False:",
        (f"{TEST_GROUPS}::test_a_sibling_that_fails_while_the_group_is_restarted_is_restarted_with_it",),
    ),
    Mutant(
        "a decider that fails restarts",
        FAMILY,
        '        return "escalate"\n\n    def is_only',
        '        return "restart"\n\n    def is_only',
        (f"{TEST_GROUPS}::test_a_decider_that_returns_no_directive_escalates_and_says_so",),
    ),
    Mutant(
        "an escalation gives up first to last",
        FAMILY,
        "_one_by_one(reversed(members), lambda member, gone",
        "_one_by_one(iter(members), lambda member, gone",
        (f"{TEST_GROUPS}::test_an_escalation_stops_siblings_in_reverse_order_of_their_start",),
    ),
    Mutant(
        "each failure of one run counts",
        RULES,
        "if run and any(run == other for _, other in self._spent):",
        "if False:",
        (
            "tests/orchestration/test_supervision.py::test_the_failures_of_one_run_in_a_period_take_one_restart",
            "tests/actors/test_agents_in_systems.py::test_an_agent_that_fails_too_often_is_given_up_and_says_why",
        ),
    ),
    Mutant(
        "a run that ends well forgives nothing",
        ACTORCELL,
        "            self._life.worked()",
        "            pass",
        (
            "tests/actors/test_agents_in_systems.py::test_callers_that_do_something_wrong_take_the_agent_from_nobody_else",
        ),
    ),
    # --- one actor
    Mutant(
        "a permanent actor that ends itself stays ended",
        ACTORCELL,
        'if self.restart == "permanent" and',
        "if False and",
        (f"{TEST_GROUPS}::test_the_restart_type_says_what_follows_a_failure_and_an_end",),
    ),
    Mutant(
        "a backoff is not waited for",
        LIFECYCLE,
        "if delay > 0:\n            self._begin_after",
        "if False:\n            self._begin_after",
        (f"{TEST_GROUPS}::test_a_backoff_is_waited_while_messages_wait_and_is_doubled",),
    ),
    Mutant(
        "a timer survives the restart of its actor",
        SEAT,
        "timers, self._timers = self._timers, ()",
        "timers = list[Timer]()",
        (f"{TEST_TIMERS}::test_a_restart_cancels_what_the_old_object_had_set",),
    ),
    Mutant(
        "a new object is handed what the timer of an old one sent",
        ACTORCELL,
        "self.behaviour is None or not self._seat.has_set(timed.timer):",
        "self.behaviour is None:",
        (TEST_TIMERS,),
    ),
    Mutant(
        "the number of lives is not counted",
        LIFECYCLE,
        "self._cell.epoch += 1",
        "pass",
        (TEST_ACTORS, TEST_TIMERS),
    ),
    Mutant(
        "nobody is sent a Down",
        LIFECYCLE,
        "for watcher in self.watchers.take(down):",
        "for watcher in self.watchers.take(down)[:0]:",
        (f"{TEST_TIMERS}::test_who_watches_hears_once_of_an_orderly_end",),
    ),
    Mutant(
        "who watches is sent a Down again at the next end",
        COMMANDS,
        "waiting, self._waiting = self._waiting, {}",
        "waiting = self._waiting",
        (TEST_TIMERS,),
    ),
    Mutant(
        "who watches too late never hears",
        COMMANDS,
        "if last is not None:",
        "if False:",
        (f"{TEST_TIMERS}::test_who_watches_too_late_hears_at_once",),
    ),
    Mutant(
        "an actor that has stopped does not say so",
        ACTORCELL,
        "self._lose_waiting(self._gone_error(), close=True)\n        self.stopped.set(None)",
        "self._lose_waiting(self._gone_error(), close=True)",
        (f"{TEST_TIMERS}::test_the_end_cancels_timers",),
    ),
    Mutant(
        "an actor that was given up is never tried again",
        LIFECYCLE,
        'self.state != "down" or time.monotonic() < self._retry_at',
        "True",
        (f"{TEST_ACTORS}::test_an_actor_that_was_given_up_is_tried_once_more_after_a_while",),
    ),
    Mutant(
        "the failed object is not told",
        LIFECYCLE,
        'self._guard("before_restart", partial(old.before_restart, cause, message))',
        "pass",
        (f"{TEST_ACTORS}::test_the_failed_object_is_told_before_it_is_replaced",),
    ),
    Mutant(
        "the name of a stopped actor stays taken",
        DIRECTORY,
        "cell.stopped.when_done(lambda: self._forget(name, unit))",
        "pass",
        (f"{TEST_ACTORS}::test_a_name_is_taken_until_its_actor_has_stopped",),
    ),
    # --- no thread
    Mutant(
        "an actor that has no thread to begin on is half alive for ever",
        ACTORCELL,
        "lost=lambda error: self._life.cannot_begin(error, then) if still() else None",
        "lost=lambda error: then()",
        (f"{TEST_NO_THREADS}::test_an_actor_without_a_thread_to_begin_on_is_down_and_begins_with_the_next_message",),
    ),
    Mutant(
        "an end that has no thread is lost",
        ACTORCELL,
        "Envelope(end, on_lost=lambda _: end.do())",
        "Envelope(end)",
        (f"{TEST_NO_THREADS}::test_an_actor_can_be_stopped_without_a_thread_and_its_name_is_free_again",),
    ),
    Mutant(
        "members of a group that has no thread wait for ever",
        ACTORCELL,
        "self._life.be_down(cause)\n            then()",
        "then()",
        (
            f"{TEST_NO_THREADS}::test_a_group_without_a_thread_to_begin_on_is_given_up_and_begins_with_the_next_messages",
        ),
    ),
    Mutant(
        "a backoff that nobody can wait for ends an actor",
        ACTORCELL,
        "except RuntimeError as error:",
        "except LookupError as error:",
        (f"{TEST_NO_THREADS}::test_an_actor_whose_backoff_ends_when_there_are_no_threads_comes_back",),
    ),
    # --- time
    Mutant(
        "a periodic timer does not wait until its message is taken",
        TIMERS,
        "self._send(self, self._taken)",
        "self._send(self, lambda: None)\n        self._taken()",
        (f"{TEST_TIMERS}::test_a_periodic_timer_does_not_pile_up_messages_for_a_slow_actor",),
    ),
    Mutant(
        "an alarm that was called off rings",
        CLOCKWORK,
        'too."""\n        self._ring = None',
        'too."""',
        (f"{TEST_CLOCKWORK}::test_an_alarm_that_was_called_off_does_not_ring",),
    ),
    Mutant(
        "an earlier alarm waits for the later one",
        CLOCKWORK,
        "self._changed.notify()",
        "pass",
        (f"{TEST_CLOCKWORK}::test_each_alarm_rings_once_and_an_earlier_one_set_later_rings_first",),
    ),
)
