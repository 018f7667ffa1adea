"""`GraphRun`: the run of a workflow; each task begins as soon as its dependencies are done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from understudy.errors import ProtocolViolation, RunError
from understudy.orchestration.group.children import ChildFailure, ChildOrder, ChildResult, ChildState
from understudy.orchestration.group.group_run import GroupRun
from understudy.orchestration.group.outcome import complete, totals_of
from understudy.vocabulary.backoff import backoff_wait
from understudy.vocabulary.messages import JsonValue, Part, join_text
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, TaskResult, TaskStatus

from .parameters import check_parameters, filled
from .spec import GraphSpec, TaskSpec
from .state import DECIDED, GraphState, TaskState
from .task_values import TaskValues


class TaskIndex:
    """Indexes over the tasks, by number. A step costs what it changes, however many tasks there are.

    They are not saved, because they follow from the state.

    Attributes:
        numbers: name of a task -> its number.
        dependents: for each task, the tasks that depend on it.
        owners: position of a child -> number of its task.
        open: tasks that run.
        left: task that runs -> how many of its children are neither done nor at a limit.
        ready: tasks that are pending and depend on none that is not decided.
    """

    __slots__ = ("_missing", "_tasks", "dependents", "left", "numbers", "open", "owners", "ready")

    def __init__(self, specs: tuple[TaskSpec, ...], state: GraphState) -> None:
        self._tasks = tasks = state.tasks
        self.numbers = {spec.name: number for number, spec in enumerate(specs)}
        self.dependents: list[list[int]] = [[] for _ in specs]
        self._missing: list[int] = []
        """How many that each task depends on are not decided."""
        for number, spec in enumerate(specs):
            before = [self.numbers[name] for name in spec.dependencies]
            self._missing.append(sum([tasks[each].status not in DECIDED for each in before]))
            for each in before:
                self.dependents[each].append(number)
        self.owners = {position: number for number, task in enumerate(tasks) for position in task.children}
        self.open = {n for n, task in enumerate(tasks) if task.status == "running"}
        over = ("done", "limit")
        self.left = {n: sum([state.children[p].phase not in over for p in tasks[n].children]) for n in self.open}
        self.ready = {n for n, task in enumerate(tasks) if task.status == "pending" and not self._missing[n]}

    def take_ready(self) -> list[int]:
        """Return the tasks that are ready, in order; each is returned once, and the caller decides about it."""
        taken, self.ready = sorted(self.ready), set[int]()
        return taken

    def begin(self, number: int, children: list[int]) -> None:
        """Take in the children with which a task begins."""
        self.owners.update(dict.fromkeys(children, number))
        self.left[number] = len(children)

    def note(self, number: int) -> None:
        """Bring the index up to the status that a task has now, which is no longer pending."""
        status = self._tasks[number].status
        if status == "running":
            self.open.add(number)
            return
        self.open.discard(number)
        if status in DECIDED:
            for dependent in self.dependents[number]:
                self._missing[dependent] -= 1
                if not self._missing[dependent]:
                    self.ready.add(dependent)


class GraphRun(GroupRun[GraphSpec, GraphState]):
    """The run of a workflow.

    A failed task is retried after a delay while it has retries left. Then the tasks that depend on it are skipped, the
    others go on, and the run ends `Incomplete`. `retry_failed` starts the failed and the skipped tasks again.

    Args:
        spec: the workflow's rules and limits, as data.
        input: the value of `${input}`.
        parameters: the values of the other names in the prompts.

    Raises:
        ValueError: a parameter is missing, unknown, or named like a task.
        TypeError: the parameters are no mapping, or no JSON.
    """

    __slots__ = ("_index", "_values")

    _index: TaskIndex
    _values: TaskValues

    def __init__(
        self, spec: GraphSpec, input: str | Sequence[Part], parameters: Mapping[str, JsonValue] | None = None
    ) -> None:
        given = check_parameters(spec, {} if parameters is None else parameters)
        super().__init__(spec, input)
        if spec.given:
            self._state.parameters.update(filled(spec.given, input if isinstance(input, str) else join_text(input)))
        self._state.parameters.update(given)

    def _make_index(self) -> None:
        self._index = TaskIndex(self._spec.tasks, self._state)
        self._values = TaskValues(self._state, self._index.numbers)
        super()._make_index()

    @classmethod
    def _begun(cls, spec: GraphSpec, input: str | tuple[Part, ...]) -> GraphState:
        return GraphState(input=input, children=[], parameters={}, tasks=[TaskState() for _ in spec.tasks])

    @classmethod
    def _state_type(cls) -> type[GraphState]:
        return GraphState

    @classmethod
    def _contradiction(cls, state: GraphState, spec: GraphSpec) -> str:
        from .contradictions import contradiction_of_graph

        return contradiction_of_graph(state, spec)

    # --- which tasks begin

    def _eligible(self) -> Iterable[int]:
        tasks, children = self._state.tasks, self._state.children
        return [p for number in self._index.open for p in tasks[number].children if children[p].phase == "pending"]

    def _due(self) -> list[int]:
        self.begin_ready()
        return super()._due()

    def _admit(self) -> list[int]:
        self.begin_ready()
        new = super()._admit()
        for position in new:
            self._state.tasks[self.task_at(position)].begun += 1
        return new

    def _may_run(self, position: int) -> bool:
        return self.task_at(position) in self._index.open

    def begin_ready(self) -> None:
        """Begin, skip or fail every task whose dependencies are decided, until no further task becomes ready."""
        while self._index.ready:
            for number in self._index.take_ready():
                task = self._state.tasks[number]
                self._values.prepare(self._spec.tasks[number], task)
                if task.status == "running":
                    self._begin(number, task)
                self._index.note(number)

    def _begin(self, number: int, task: TaskState) -> None:
        first = len(self._state.children)
        task.children = list(range(first, first + len(task.prompts)))
        self._state.children += [ChildState() for _ in task.prompts]
        self._index.begin(number, task.children)
        for position in task.children:
            self._queue.join(position)
        if not task.children:
            self._end(task)

    def _input_of(self, position: int) -> str:
        task = self._state.tasks[self.task_at(position)]
        return task.prompts[position - task.children[0]]

    def task_at(self, position: int) -> int:
        """Return the number of the task that a child belongs to, from 0."""
        number = self._index.owners.get(position)
        if number is None:
            raise ProtocolViolation(f"there is no child {position}")
        return number

    def order_of(self, position: int) -> ChildOrder:
        number = self.task_at(position)
        spec, task, child = self._spec.tasks[number], self._state.tasks[number], self._state.children[position]
        order = super().order_of(position)
        asks = spec.asks_when and not child.attempts and not task.repeats and child.paused is None
        return ChildOrder(position, order.input, order.paused, self.delay_of(position), asks)

    def delay_of(self, position: int) -> float:
        """Return the seconds to wait before the next attempt of a child: they double with each failed attempt."""
        first, most = self._spec.tasks[self.task_at(position)].backoff
        failed = self._state.children[position].attempts
        return backoff_wait(first, most, failed - 1) if failed else 0.0

    # --- reports about a child

    def child_done(self, position: int, result: ChildResult, *, again: bool = False) -> None:
        """Take the result of a complete child.

        Args:
            position: the child's position.
            result: its result.
            again: whether the task's `until` function wants another repetition.

        Raises:
            ProtocolViolation: no result of this child is expected.
        """
        super().child_done(position, result)
        number = self.task_at(position)
        spec, task = self._spec.tasks[number], self._state.tasks[number]
        task.text = result.text
        if task.items is None and task.repeats < spec.max_repeats and (again or self._wants_more(spec)):
            self._repeat(spec, task, position)
            return
        self._one_less(number, task)

    def _one_less(self, number: int, task: TaskState) -> None:
        """Count one child of a task as done or at a limit; end the task after its last child."""
        left = self._index.left
        left[number] -= 1
        if left[number]:
            return
        children = [self._state.children[each] for each in task.children]
        limits = [each.failure for each in children if each.phase == "limit"]
        if limits:
            self._close(task.children[0], "failed", str(limits[0]))
            return
        self._end(task)
        self._index.note(number)

    def _wants_more(self, spec: TaskSpec) -> bool:
        return spec.until is not None and self._values.wants_more(spec.until)

    def _repeat(self, spec: TaskSpec, task: TaskState, position: int) -> None:
        task.repeats += 1
        task.prompts = [self._values.prompt(spec, task)]
        self._again(position, ChildState())

    def _again(self, position: int, child: ChildState) -> None:
        """Queue the child that just ended for another run."""
        self._state.children[position] = child
        self._state.order.pop()
        self._queue.join(position)

    def _end(self, task: TaskState) -> None:
        results = [self._state.children[position].result for position in task.children]
        texts = [result.text for result in results if result is not None]
        task.status = "done"
        task.text = texts[0] if task.items is None else json.dumps(texts, ensure_ascii=False)

    def child_failed(
        self, position: int, failure: ChildFailure, error: Exception | None = None, *, may_retry: bool = True
    ) -> None:
        """Note that a child failed; it runs again if `may_retry` and its task has retries left.

        Raises:
            ProtocolViolation: no failure of this child is expected.
        """
        super().child_failed(position, failure, error)
        if may_retry and self.wants_retry(position):
            self._failed.pop()
            self._errors.pop(position, None)
            self._again(position, ChildState(attempts=self._state.children[position].attempts + 1))
        else:
            self._close(position, "failed", str(failure))

    def wants_retry(self, position: int) -> bool:
        """Whether the child's task has retries left."""
        return self._state.children[position].attempts < self._spec.tasks[self.task_at(position)].retries

    def child_skipped(self, position: int) -> None:
        """Note that the task's `when` function returned False.

        Raises:
            ProtocolViolation: no report of this child is expected.
        """
        self._running(position, "a skip")
        self._state.tasks[self.task_at(position)].begun -= 1
        self._close(position, "skipped", "its condition does not hold")

    def child_at_limit(self, position: int, saved: str, failure: ChildFailure, error: Exception | None = None) -> None:
        super().child_at_limit(position, saved, failure, error)
        number = self.task_at(position)
        self._one_less(number, self._state.tasks[number])

    def _close(self, position: int, status: Literal["failed", "skipped"], reason: str) -> None:
        """End the task of a child without a result; its other children do not count any more."""
        number = self.task_at(position)
        task = self._state.tasks[number]
        task.status, task.reason = status, reason
        for each in task.children:
            self._queue.leave(each)
        self._index.note(number)

    # --- going on, and starting again

    def go_on(self, raised: Mapping[int, str]) -> None:
        self._check_raised(raised)
        self.retry_failed(raised)

    def retry_failed(self, raised: Mapping[int, str] | None = None) -> None:
        """Start the failed tasks again, and the tasks that were skipped because of them.

        The runs that were kept go on from where they are.

        Args:
            raised: position -> the saved run of a child at a limit, with the limit raised; its task goes on instead.
        """
        raised = {**self._kept(), **(raised or {})}
        due = [number for number, task in enumerate(self._state.tasks) if task.status == "failed"]
        for number in due:  # the list grows during the loop
            task = self._state.tasks[number]
            if raised.keys().isdisjoint(task.children):
                self._state.forget(task)
            else:
                self._state.reopen(task, raised)
            due += [n for n in self._index.dependents[number] if self._state.tasks[n].status == "skipped"]
        for position in raised:
            self._errors.pop(position, None)
        self._make_index()

    def _kept(self) -> dict[int, str]:
        """Return the kept runs of failed children, by position."""
        positions = [at for task in self._state.tasks if task.status == "failed" for at in task.children]
        children = [(at, self._state.children[at]) for at in positions]
        return {at: each.paused.saved for at, each in children if each.phase == "failed" and each.paused is not None}

    # --- the end

    def _failure(self) -> Exception | None:
        return None

    @property
    def is_done(self) -> bool:
        self.begin_ready()
        return not self._index.open and all(task.status in DECIDED for task in self._state.tasks)

    def _outcome(self) -> Complete[str] | Incomplete:
        if self.is_incomplete():
            return incomplete(self._spec, self._state, self._errors)
        return completed(self._spec, self._state)

    def is_incomplete(self) -> bool:
        """Whether all tasks are decided and some failed: only `retry_failed` or `go_on` continues the run."""
        statuses = [task.status for task in self._state.tasks]
        return "failed" in statuses and all(status in DECIDED for status in statuses)

    def at_limit(self) -> bool:
        return bool(self._limited) and self.is_incomplete()

    @property
    def tasks(self) -> dict[str, TaskResult]:
        """The present result of each task, by name."""
        return task_results(self._spec, self._state, self._errors)

    def _results_to_merge(self) -> Iterable[ChildResult]:
        # In the order in which the children ended, because a task may change values that an earlier one set.
        return [r for position in self._state.order if (r := self._state.children[position].result) is not None]


def completed(spec: GraphSpec, state: GraphState) -> Complete[str]:
    """Return the outcome of a workflow without failed tasks."""
    count = sum(task.status == "done" for task in state.tasks)
    reason = f"{count} of {len(state.tasks)} tasks completed; the others were skipped"
    if count == len(state.tasks):
        reason = f"all {count} tasks completed"
    return complete(spec.runner_id, state, _last_done(spec, state).text, reason, tasks=task_results(spec, state))


def incomplete(spec: GraphSpec, state: GraphState, errors: Mapping[int, Exception]) -> Incomplete:
    """Return the outcome of a workflow with failed tasks.

    Args:
        spec: the workflow.
        state: its state.
        errors: position of a child -> its exception, for each child whose exception was not lost by saving.
    """
    tasks = task_results(spec, state, errors)
    reasons = [f"task {r.name!r} {r.status}: {r.reason}" for r in tasks.values() if r.status == "failed"]
    reasons += [f"task {r.name!r} was skipped" for r in tasks.values() if r.status == "skipped"]
    return Incomplete(
        agent_id=spec.runner_id,
        completion_reason="; ".join(reasons),
        last_text=_last_done(spec, state).text,
        tasks=tasks,
        **totals_of(state),
    )


def _last_done(spec: GraphSpec, state: GraphState) -> TaskState:
    """Return the last completed task without dependents, or else the last completed task."""
    needed = {name for task in spec.tasks for name in task.dependencies}
    done = [(each.name, task) for each, task in zip(spec.tasks, state.tasks, strict=True) if task.status == "done"]
    sinks = [task for name, task in done if name not in needed]
    return (sinks or [task for _, task in done] or [TaskState()])[-1]


def task_results(
    spec: GraphSpec, state: GraphState, errors: Mapping[int, Exception] | None = None
) -> dict[str, TaskResult]:
    """Return the result of each task, by name; `errors` as for `incomplete`."""
    return {
        each.name: TaskResult(
            name=each.name,
            status=_status(task, state),
            text=task.text,
            reason=task.reason,
            attempts=task.begun,
            error=_error_of(task, state, errors or {}) if task.status == "failed" else None,
        )
        for each, task in zip(spec.tasks, state.tasks, strict=True)
    }


def _error_of(task: TaskState, state: GraphState, errors: Mapping[int, Exception]) -> Exception:
    for position in task.children:
        failure = state.children[position].failure
        if failure is not None:
            return errors.get(position) or failure.to_error()
    return RunError(task.reason)  # it had no prompt, or no list of items


def _status(task: TaskState, state: GraphState) -> TaskStatus:
    """Return a task's status for callers: `paused` if all of its runs wait for a person."""
    if task.status != "running":
        return task.status
    phases = {state.children[position].phase for position in task.children}
    return "paused" if "paused" in phases and "pending" not in phases else "running"
