"""Faults in memory and conversations: who waits, who shares, what is stored when."""

from __future__ import annotations

from .mutant import Mutant

LINES = "actors/conversations.py"
MEMORY = "actors/memory.py"
MEMORIES = "understudy/memory.py"
RUNS = "actors/runs.py"
RECORD = "actors/record.py"
RUN_RECORD = "actors/runrecord.py"
SESSION = "understudy/session.py"

TEST_LINES = "tests/actors/test_conversations.py"
TEST_MEMORY = "tests/actors/test_memory.py"
TEST_MEMORIES = "tests/vocabulary/test_memory.py"

MUTANTS = (
    # --- who has a conversation
    Mutant(
        "two runs have one conversation",
        LINES,
        "self.slots: Slots[Group] = Slots(1)",
        "self.slots: Slots[Group] = Slots(2)",
        (f"{TEST_LINES}::test_runs_of_one_conversation_come_one_after_another_in_their_order",),
    ),
    Mutant(
        "every run waits for its conversation alone",
        RUN_RECORD,
        "self.root = runs.root_of(self.link)",
        "self.root = run_id",
        (f"{TEST_LINES}::test_what_a_run_without_a_conversation_begins_shares_one",),
    ),
    Mutant(
        "the first to leave gives the conversation on",
        LINES,
        "if group.inside or group.waiting:",
        "if group.waiting:",
        (f"{TEST_LINES}::test_what_outlives_the_run_that_began_it_keeps_the_conversation",),
    ),
    Mutant(
        "a run that ends keeps its conversation",
        RUNS,
        "        safely(record, self.conversations.leave, record)\n",
        "",
        (f"{TEST_LINES}::test_a_run_that_pauses_or_fails_gives_its_conversation_back",),
        hangs=True,
    ),
    Mutant(
        "a run waits for a place with its conversation in hand",
        RUNS,
        "self._admission = Admission(max_runs, self._admitted)",
        "self._admission = Admission(max_runs, lambda record: start(record, record.epoch))",
        (f"{TEST_LINES}::test_runs_of_one_conversation_come_one_after_another_in_their_order",),
    ),
    Mutant(
        "of runs that stood in line together one is started",
        LINES,
        "for start, _ in waiting.values():",
        "for start, _ in list(waiting.values())[:1]:",
        (f"{TEST_LINES}::test_runs_that_one_root_begins_stand_in_line_together",),
        hangs=True,
    ),
    Mutant(
        "a conversation waits for nobody",
        LINES,
        "inside = () if line.holder is None else line.holder.inside",
        "inside = ()",
        (f"{TEST_LINES}::test_a_run_that_waits_for_a_run_behind_it_in_line_is_refused",),
        hangs=True,
    ),
    Mutant(
        "a conversation goes on waiting for those who had it before",
        LINES,
        "                _let_in(record, group)\n            _await_holder(line)\n",
        "                _let_in(record, group)\n",
        (f"{TEST_LINES}::test_who_was_granted_a_conversation_is_refused_as_who_had_it_first",),
        hangs=True,
    ),
    Mutant(
        "a conversation does not wait for who came to share it",
        LINES,
        "if lease.line.wait is not None:",
        "if False:",
        (f"{TEST_LINES}::test_who_came_to_share_a_conversation_is_refused_as_who_had_it_first",),
        hangs=True,
    ),
    Mutant(
        "a group has its conversation a step at a time",
        LINES,
        "return any(remembers(inner, has_history=False) for inner in runner.inner_runners)",
        "return False",
        (f"{TEST_LINES}::test_a_group_has_its_conversation_from_its_first_step_to_its_last",),
    ),
    # --- what came between
    Mutant(
        "what came between is counted from the last pause only",
        LINES,
        "lease.came_between, lease._left_at = self.came_between, self._left_at",
        "lease._left_at = self._left_at",
        (f"{TEST_LINES}::test_what_came_between_is_counted_over_all_pauses_and_told_once",),
    ),
    Mutant(
        "what was said before the run counts as between",
        LINES,
        "if self._left_at is not None:",
        "if True:",
        (f"{TEST_LINES}::test_a_conversation_in_which_nothing_came_between_has_not_diverged",),
    ),
    Mutant(
        "what came between a run that was kept as text is not looked for",
        MEMORY,
        "if lease.was_saved:",
        "if False:",
        (f"{TEST_LINES}::test_a_run_that_was_kept_in_a_store_says_how_much_came_between",),
    ),
    Mutant(
        "a run that was kept as text forgets that it had a history of its own",
        "actors/saving.py",
        "history=() if saved.own_history else None",
        "history=None",
        (f"{TEST_LINES}::test_a_run_with_a_history_of_its_own_leaves_the_memory_alone_after_a_store_too",),
    ),
    Mutant(
        "temporary values are stored",
        "actors/saving.py",
        "session=lasting(record.session),",
        "session=dict(record.session),",
        (f"{TEST_MEMORY}::test_temporary_values_are_in_no_store",),
    ),
    # --- what is known and stored
    Mutant(
        "an explicit history does not keep the memory out",
        LINES,
        "return runner.memory is not None and not has_history",
        "return runner.memory is not None",
        (f"{TEST_MEMORY}::test_an_explicit_history_leaves_the_memory_alone",),
    ),
    Mutant(
        "an answer is stored after it was reported",
        RUNS,
        "            commit = remember(record, outcome.messages, epoch) if isinstance(record, Record) else None\n"
        "            if not record.hold(epoch):\n                return\n"
        "            safely(record, self._tokens.over, record)\n"
        "            safely(record, record.cell.worked)\n"
        '            record.end(outcome, "complete", epoch=epoch, commit=commit)',
        '            record.end(outcome, "complete", epoch=epoch)\n'
        "            (remember(record, outcome.messages, epoch) or int)()",
        (f"{TEST_MEMORY}::test_nobody_hears_of_an_answer_that_is_not_stored",),
    ),
    Mutant(
        "a run that pauses stores what it has",
        RUNS,
        '        token = "" if record.is_inner else self._keep',
        "        (remember(record, outcome.messages, epoch) or int)()\n"
        '        token = "" if record.is_inner else self._keep',
        (f"{TEST_MEMORY}::test_a_paused_run_stores_nothing_before_its_end_and_then_all_of_it_once",),
    ),
    Mutant(
        "two use a memory at once",
        MEMORY,
        "self._slots: Slots[Reply[None]] = Slots(1)",
        "self._slots: Slots[Reply[None]] = Slots(2)",
        (TEST_LINES, TEST_MEMORY),
    ),
    Mutant(
        "a memory that hangs is waited for",
        MEMORY,
        "record.begin_step(epoch, doing, until + GRACE)\n        turn",
        "record.begin_step(epoch, doing)\n        turn",
        (f"{TEST_MEMORY}::test_a_memory_that_hangs_ends_its_run",),
        hangs=True,
    ),
    Mutant(
        "a memory's error of ours ends the run at once",
        MEMORY,
        '        raise RuntimeError(f"the memory',
        '        raise\n        raise RuntimeError(f"the memory',
        (f"{TEST_MEMORY}::test_a_failure_of_the_memory_is_the_agents_and_is_tried_again",),
    ),
    Mutant(
        "a window is one turn too long",
        MEMORIES,
        'self._window = _at_least_one("turns", turns)',
        'self._window = _at_least_one("turns", turns) + 1',
        (TEST_MEMORIES,),
    ),
    Mutant(
        "what was read least recently is kept",
        MEMORIES,
        "            self._conversations.move_to_end(key)\n            known",
        "            known",
        (f"{TEST_MEMORIES}::test_of_too_many_conversations_the_one_that_was_used_least_recently_is_forgotten",),
    ),
    Mutant(
        "temporary values are lost at a pause",
        RECORD,
        "        record.session.take_temporary(self.session)\n",
        "",
        (f"{TEST_MEMORY}::test_temporary_values_outlast_a_pause_and_never_come_out",),
    ),
    Mutant(
        "temporary values reach the caller",
        SESSION,
        "return lasting(self.changes), frozenset",
        "return dict(self.changes), frozenset",
        (f"{TEST_MEMORY}::test_temporary_values_outlast_a_pause_and_never_come_out",),
    ),
)
