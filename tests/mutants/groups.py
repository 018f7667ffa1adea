"""Faults in the runs of sequences, parallel groups and workflows."""

from __future__ import annotations

from .mutant import Mutant

RECORD = "actors/grouprecord.py"
DRIVER = "actors/groupdriver.py"
INNER = "actors/inner.py"
MACHINE = "orchestration/group_run.py"
CHILDREN = "orchestration/child_runs.py"
GRAPH = "orchestration/graph_run.py"
ANSWERS = "actors/answers.py"

WAITING = "actors/waiting.py"

TEST_GROUPS = "tests/actors/test_groups.py"
TEST_RACES = "tests/actors/test_group_races.py"
TEST_WAITS = "tests/actors/test_merged_waits.py"
TEST_LIMITS = "tests/actors/test_group_limits.py"
TEST_PAUSES = "tests/actors/test_group_pauses.py"
TEST_WORKFLOWS = "tests/actors/test_workflows.py"

MUTANTS = (
    Mutant(
        "the children of a group that is over run on",
        RECORD,
        "            safely(self, self.runs.cancel, record, self._why_cancelled)\n\n    @property",
        "            pass\n\n    @property",
        (f"{TEST_GROUPS}::test_the_first_to_succeed_is_the_answer_and_the_others_are_cancelled",),
        hangs=True,
    ),
    Mutant(
        "a driver that follows one that failed forgets the children",
        DRIVER,
        "        return list(record.children)\n",
        "        return []\n",
        (f"{TEST_WORKFLOWS}::test_what_ended_while_a_driver_failed_is_not_forgotten",),
        hangs=True,
    ),
    Mutant(
        "a child's error is made anew of its words",
        CHILDREN,
        "            self._errors[position] = error\n",
        "            pass\n",
        (f"{TEST_GROUPS}::test_a_sequence_ends_with_the_error_of_its_step_itself",),
    ),
    Mutant(
        "parallel children see what others changed",
        RECORD,
        "return not isinstance(self.group, ParallelAgent)",
        "return True",
        (f"{TEST_GROUPS}::test_parallel_children_work_on_copies_and_what_they_changed_is_laid_over_the_session",),
    ),
    Mutant(
        "what parallel children changed is lost",
        RECORD,
        "            overlay.commit()\n        return tuple",
        "            pass\n        return tuple",
        (f"{TEST_GROUPS}::test_parallel_children_work_on_copies_and_what_they_changed_is_laid_over_the_session",),
    ),
    Mutant(
        "what comes when all is decided ends the run",
        RECORD,
        "if self.machine.expects(position):",
        "if True:",
        (f"{TEST_WORKFLOWS}::test_what_comes_of_an_item_when_its_task_has_failed_does_not_count",),
    ),
    Mutant(
        "a paused child begins from its beginning",
        DRIVER,
        "if order.paused is not None:",
        "if False:",
        (f"{TEST_PAUSES}::test_a_sequence_goes_on_inside_of_the_step_that_paused_and_then_with_the_others",),
    ),
    Mutant(
        "a run inside of a run stands in nobody's way",
        INNER,
        "        graph.check(outer.ancestry, runner)\n",
        "        pass\n",
        (
            f"{TEST_GROUPS}::test_a_group_that_is_reached_through_itself_is_refused_with_the_way",
            "tests/actors/test_sub_agents.py",
        ),
    ),
    Mutant(
        "what is paused inside of a group keeps a token of its own",
        INNER,
        "    child.is_inner = True\n",
        "",
        ("tests/actors/test_sub_agent_pauses.py", TEST_PAUSES),
    ),
    Mutant(
        "children that were told already are told anew",
        MACHINE,
        "(new if only_new else self._due())",
        "self._due()",
        ("tests/orchestration/test_groups.py", "tests/orchestration/test_graph.py"),
    ),
    Mutant(
        "a retry whose time has come is forgotten",
        DRIVER,
        "[*record.due_again(epoch), *orders] if not all_of_them else orders",
        "orders",
        (f"{TEST_WORKFLOWS}::test_a_retry_that_waits_for_its_time_comes",),
        hangs=True,
    ),
    Mutant(
        "what ends while a driver looks wakes nobody",
        DRIVER,
        "        self._woken = False  # before it looks: what comes after that wakes it again\n",
        "",
        (f"{TEST_GROUPS}::test_a_sequence_hands_on_what_the_step_before_said",),
        hangs=True,
    ),
    Mutant(
        "a driver that has the run no more closes its text",
        "actors/runs.py",
        "            if not record.hold(epoch):\n                return\n            safely(record, self._tokens.over, record)\n",
        "            safely(record, self._tokens.over, record)\n",
        ("tests/actors/test_stored_pauses.py::test_a_driver_that_has_the_run_no_more_leaves_its_text_in_the_store",),
    ),
    Mutant(
        "a group at a limit has no token",
        RECORD,
        "return self.machine.at_limit()",
        "return False",
        (f"{TEST_LIMITS}::test_a_sequence_goes_on_inside_of_the_step_that_reached_a_limit",),
    ),
    Mutant(
        "a child at a limit has failed",
        DRIVER,
        "elif not self._stopped(position, inside.record, error):",
        "else:",
        (f"{TEST_LIMITS}::test_a_task_at_a_limit_goes_on_where_it_stands_once_that_is_raised",),
    ),
    Mutant(
        "a budget is raised for the group, whoever spent it",
        "orchestration/raising.py",
        "wanted.budget if run.over_budget() else None",
        "None",
        (f"{TEST_LIMITS}::test_the_budget_of_a_child_is_raised_for_that_child",),
    ),
    Mutant(
        "a number that is too low for all is taken and forgotten",
        ANSWERS,
        "    wanted.check()\n",
        "",
        (f"{TEST_LIMITS}::test_what_does_not_fit_leaves_the_token",),
    ),
    Mutant(
        "a retry waits for nothing",
        DRIVER,
        "if order.delay and position not in record.ready:",
        "if False:",
        (f"{TEST_WORKFLOWS}::test_a_run_that_is_cancelled_while_a_retry_waits_runs_nothing_more",),
    ),
    Mutant(
        "errors that have used up their retries are retried by workflows",
        DRIVER,
        " or had_its_retries(error)\n",
        "\n",
        (f"{TEST_WORKFLOWS}::test_an_error_that_has_used_up_its_retries_is_not_retried_once_more",),
    ),
    Mutant(
        "what was skipped because of a failure is skipped for ever",
        GRAPH,
        "            due += [n for n in self._index.dependents[number]",
        "            due += [n for n in []",
        (f"{TEST_WORKFLOWS}::test_failed_tasks_begin_anew_when_the_run_goes_on_and_those_that_are_done_do_not",),
    ),
    Mutant(
        "a workflow at a limit hears no answers for what is paused besides",
        GRAPH,
        'return "failed" in statuses and all(status in DECIDED for status in statuses)',
        'return "failed" in statuses',
        (
            f"{TEST_WORKFLOWS}::test_a_workflow_pauses_when_nothing_else_runs_and_a_failure_besides_does_not_keep_it_from_going_on",
        ),
    ),
    # --- the first answer, in circles of waiting
    Mutant(
        "a group that takes the first answer waits for each",
        RECORD,
        "(FirstChild if first else EachChild)",
        "EachChild",
        (f"{TEST_RACES}::test_a_child_that_has_not_begun_may_still_answer",),
    ),
    Mutant(
        "a group of which every child waits for it is not found",
        DRIVER,
        "        self._refuse_stuck()\n",
        "",
        (f"{TEST_RACES}::test_when_the_others_have_failed_the_child_that_waits_for_its_group_does",),
    ),
    Mutant(
        "a group is held up by its children while it is about to begin another one",
        RECORD,
        "            self.waits.look()\n",
        "            pass\n",
        (f"{TEST_RACES}::test_who_comes_to_wait_for_a_group_that_is_about_to_begin_a_child_is_not_refused",),
    ),
    Mutant(
        "a circle through two groups ends a child of each",
        WAITING,
        "driving.at_work = way is not None",
        "pass",
        (f"{TEST_WAITS}::test_of_two_groups_that_close_one_circle_only_one_is_told",),
    ),
    Mutant(
        "a child that left a group stays in the graph",
        WAITING,
        "                _take_out(self._by_target, link, wait)\n            wait.race",
        "                pass\n            wait.race",
        (f"{TEST_WAITS}::test_a_child_that_left_a_group_is_kept_by_nothing",),
    ),
    Mutant(
        "limits of agents are taken by groups and forgotten",
        ANSWERS,
        "for name in wanted.numbers if not stopped else ():",
        "for name in ():",
        (f"{TEST_PAUSES}::test_tokens_of_groups_work_once_and_answers_are_checked",),
    ),
)
